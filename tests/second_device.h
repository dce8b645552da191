// A second device, to find tensors that are made in the wrong place without a GPU: LibTorch's PrivateUse1 backend over ordinary
// memory. Its operators are those of the CPU, on copies; an operator whose operands are on both devices is an error, as it is on
// a GPU (a CPU scalar, which has no dimensions, may be an operand).
#pragma once

#include <c10/core/Device.h>

namespace bridle::test {

inline at::Device second_device() { return {at::kPrivateUse1, 0}; }

}  // namespace bridle::test
