// One process: there is nobody to exchange anything with.
#include "bridle/ranks.h"

namespace bridle {
namespace {

class Alone : public Ranks {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  void exchange(const std::vector<at::Tensor>& /*to*/, const std::vector<at::Tensor>& /*from*/) override {}
  void fail(const std::string& /*why*/) noexcept override {}
  void leave() override {}
};

}  // namespace

std::shared_ptr<Ranks> alone() { return std::make_shared<Alone>(); }

}  // namespace bridle
