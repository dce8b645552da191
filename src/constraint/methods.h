// One maker a method; the classes stay in their own files.
#pragma once

#include <functional>
#include <memory>

#include "bridle/constraint.h"

namespace bridle {

using MakeConstraint = std::unique_ptr<Constraint> (*)(const ConstraintOptions&);

std::unique_ptr<Constraint> make_none(const ConstraintOptions&);
std::unique_ptr<Constraint> make_weight_decay(const ConstraintOptions&);
std::unique_ptr<Constraint> make_spectral_weight_decay(const ConstraintOptions&);
std::unique_ptr<Constraint> make_normalize_by_bound(const ConstraintOptions&);
std::unique_ptr<Constraint> make_normalize_by_estimate(const ConstraintOptions&);
std::unique_ptr<Constraint> make_stiefel(const ConstraintOptions&);
std::unique_ptr<Constraint> make_hammer(const ConstraintOptions&);
std::unique_ptr<Constraint> make_soft_cap(const ConstraintOptions&);
std::unique_ptr<Constraint> make_hard_cap(const ConstraintOptions&);
std::unique_ptr<Constraint> make_hard_cap_polynomial(const ConstraintOptions&);
std::unique_ptr<Constraint> make_hard_cap_svd(const ConstraintOptions&);
std::unique_ptr<Constraint> make_clip(const ConstraintOptions&);
std::unique_ptr<Constraint> make_clipped_weight_decay(const ConstraintOptions&);
std::unique_ptr<Constraint> make_parseval(const ConstraintOptions&);

}  // namespace bridle
