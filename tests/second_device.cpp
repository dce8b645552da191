// See second_device.h. Needs no allocator and no hooks of LibTorch's, which differ between its versions.
#include "second_device.h"

#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>

#include "base/libtorch.h"

namespace bridle::test {
namespace {

using at::IntArrayRef;
using at::Tensor;
template <class T>
using Optional = OperatorOptional<T>;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  at::DeviceType type() const override { return at::kPrivateUse1; }
  at::Device exchangeDevice(at::Device /*device*/) const override { return second_device(); }
  at::Device getDevice() const override { return second_device(); }
  void setDevice(at::Device /*device*/) const override {}
  void uncheckedSetDevice(at::Device /*device*/) const noexcept override {}
  c10::Stream getStream(at::Device /*device*/) const noexcept override { return stream(); }
  c10::Stream exchangeStream(c10::Stream /*stream*/) const noexcept override { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** /*event*/, const c10::Stream& /*stream*/, const c10::DeviceIndex /*index*/,
              const c10::EventFlag /*flag*/) const override {}
  void block(void* /*event*/, const c10::Stream& /*stream*/) const override {}

 private:
  static c10::Stream stream() noexcept { return c10::Stream(c10::Stream::DEFAULT, second_device()); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

Tensor with_storage(const c10::Storage& storage, const caffe2::TypeMeta& dtype, IntArrayRef size,
                    IntArrayRef stride, int64_t offset) {
  Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
  result.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset);
  return result;
}

Tensor allocated(IntArrayRef size, IntArrayRef stride, at::ScalarType type) {
  const auto dtype = caffe2::TypeMeta::fromScalarType(type);
  int64_t elements = size.empty() ? 1 : (size[0] == 0 ? 0 : 1);
  for (size_t i = 0; i < size.size(); ++i)
    elements = size[i] == 0 || elements == 0 ? 0 : elements + (size[i] - 1) * stride[i];
  const auto bytes = static_cast<size_t>(elements) * dtype.itemsize();
  c10::DataPtr data = c10::GetCPUAllocator()->allocate(bytes);
  data.unsafe_set_device(second_device());
  return with_storage(c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(data)), dtype, size,
                      stride, 0);
}

std::vector<int64_t> contiguous_strides(IntArrayRef size) {
  std::vector<int64_t> strides(size.size(), 1);
  for (size_t i = size.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(size[i], 1);
  return strides;
}

// The same memory, as a tensor of the CPU.
Tensor on_cpu(const Tensor& t) {
  if (t.is_cpu()) return t.detach();
  return at::from_blob(t.data_ptr(), t.sizes(), t.strides(), at::TensorOptions(t.scalar_type()));
}

// ---- What every backend has of its own: memory, views, copies

Tensor empty(IntArrayRef size, Optional<at::ScalarType> dtype, Optional<at::Layout> /*layout*/,
             Optional<at::Device> /*device*/, Optional<bool> /*pin*/, Optional<at::MemoryFormat> /*format*/) {
  return allocated(size, contiguous_strides(size), dtype.value_or(at::kFloat));
}

Tensor empty_strided(IntArrayRef size, IntArrayRef stride, Optional<at::ScalarType> dtype,
                     Optional<at::Layout> /*layout*/, Optional<at::Device> /*device*/,
                     Optional<bool> /*pin*/) {
  return allocated(size, stride, dtype.value_or(at::kFloat));
}

Tensor as_strided(const Tensor& self, IntArrayRef size, IntArrayRef stride, Optional<int64_t> offset) {
  return with_storage(self.storage(), self.dtype(), size, stride, offset.value_or(self.storage_offset()));
}

Tensor reshape_alias(const Tensor& self, IntArrayRef size, IntArrayRef stride) {
  return with_storage(self.storage(), self.dtype(), size, stride, self.storage_offset());
}

Tensor view(const Tensor& self, IntArrayRef size) {
  const auto inferred = at::infer_size(size, self.numel());
  const auto stride = at::detail::computeStride(self.sizes(), self.strides(), inferred);
  TORCH_CHECK(stride.has_value(), "view: the size does not fit the strides");
  return reshape_alias(self, inferred, *stride);
}

const Tensor& resize_(const Tensor& self, IntArrayRef size, Optional<at::MemoryFormat> /*format*/) {
  if (self.sizes() == size) return self;
  const Tensor fresh = allocated(size, contiguous_strides(size), self.scalar_type());
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
  self.unsafeGetTensorImpl()->set_sizes_and_strides(fresh.sizes(), fresh.strides(), 0);
  return self;
}

Tensor& copy_(Tensor& self, const Tensor& from, bool /*non_blocking*/) {
  on_cpu(self).copy_(on_cpu(from));
  return self;
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool /*non_blocking*/) {
  on_cpu(to).copy_(on_cpu(from));
  return to;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  if (from.numel() > 0 || to.numel() > 0) on_cpu(resize_(to, from.sizes(), {})).copy_(on_cpu(from));
  return to;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", TORCH_FN(empty));
  library.impl("empty_strided", TORCH_FN(empty_strided));
  library.impl("as_strided", TORCH_FN(as_strided));
  library.impl("_reshape_alias", TORCH_FN(reshape_alias));
  library.impl("view", TORCH_FN(view));
  library.impl("resize_", TORCH_FN(resize_));
  library.impl("copy_", TORCH_FN(copy_));
  library.impl("_copy_from", TORCH_FN(copy_from));
  library.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
}

// ---- All other operators

void refuse_the_cpu(const Tensor& t, const c10::OperatorHandle& op) {
  TORCH_CHECK(!t.defined() || t.device() == second_device() || t.dim() == 0, toString(op.operator_name()),
              ": expected all tensors to be on the second device, got one on ", t.device());
}

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t arguments = op.schema().arguments().size();
  for (const c10::IValue& value : torch::jit::last(*stack, arguments)) {
    if (value.isTensor()) refuse_the_cpu(value.toTensor(), op);
    if (value.isTensorList())
      for (const Tensor& t : value.toTensorVector()) refuse_the_cpu(t, op);
  }
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

}  // namespace
}  // namespace bridle::test
