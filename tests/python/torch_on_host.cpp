/* CUDA tensors for a PyTorch without CUDA and a machine without a GPU: their memory is the process's own, as that of the
   emulator of tests/gpu is, and operators of PyTorch run on it as those of the processor. Autograd, dispatch, modules and our
   own operators for CUDA are the real ones. As on a GPU, an operator that mixes a CUDA tensor with one of the processor fails,
   unless one of them is a number. Must be loaded before PyTorch asks what devices there are. `transfers` counts the
   copies from CUDA to the processor and the numbers read, which on a GPU wait for it.
   SPDX-License-Identifier: Apache-2.0 */
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstring>

extern "C" {
long transfers;
}

namespace {

const c10::Device CUDA(c10::DeviceType::CUDA, 0);

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
    c10::Device exchangeDevice(c10::Device) const override { return CUDA; }
    c10::Device getDevice() const override { return CUDA; }
    void setDevice(c10::Device) const override {}
    void uncheckedSetDevice(c10::Device) const noexcept override {}
    c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, CUDA); }
    c10::Stream exchangeStream(c10::Stream) const override { return c10::Stream(c10::Stream::DEFAULT, CUDA); }
    c10::DeviceIndex deviceCount() const noexcept override { return 1; }
    void record(void **, const c10::Stream &, const c10::DeviceIndex, const c10::EventFlag) const override {}
    void block(void *, const c10::Stream &) const override {}
};
const c10::impl::DeviceGuardImplRegistrar guard(c10::DeviceType::CUDA, new Guard);

struct CUDAHooks final : at::CUDAHooksInterface {
    explicit CUDAHooks(at::CUDAHooksArgs) {}
    bool hasCUDA() const override { return true; }
    bool isBuilt() const { return true; } /* virtual in some versions */
    bool isAvailable() const { return true; }
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    c10::DeviceIndex getCurrentDevice() const override { return 0; }
    c10::DeviceIndex deviceCount() const override { return 1; }
};
using at::CUDAHooksRegistry;
using at::RegistererCUDAHooksRegistry;
REGISTER_CUDA_HOOKS(CUDAHooks)

bool is_there(const at::Tensor &t) { return t.defined() && t.device().type() == c10::DeviceType::CUDA; }

/* A tensor of the processor in the memory of one on CUDA. */
at::Tensor host_of(const at::Tensor &t)
{
    auto *storage = t.storage().unsafeGetStorageImpl();
    at::DataPtr data(storage->mutable_data(), c10::Device(c10::kCPU));
    c10::Storage shared(c10::Storage::use_byte_size_t(), storage->nbytes(), std::move(data), c10::GetAllocator(c10::kCPU), true);
    auto host = at::detail::make_tensor<at::TensorImpl>(std::move(shared), c10::DispatchKeySet(c10::DispatchKey::CPU), t.dtype());
    host.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
    return host;
}

at::Tensor with_storage(c10::Storage storage, const at::Tensor &like)
{
    auto made = at::detail::make_tensor<at::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), like.dtype());
    made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    return made;
}

/* A tensor on CUDA that keeps the memory of one of the processor. */
at::Tensor there_of(const at::Tensor &host)
{
    auto *keeps = new c10::Storage(host.storage());
    at::DataPtr data(keeps->mutable_data(), keeps, [](void *p) { delete static_cast<c10::Storage *>(p); }, CUDA);
    return with_storage(c10::Storage(c10::Storage::use_byte_size_t(), keeps->nbytes(), std::move(data)), host);
}

bool mixes(const std::string &name)
{
    static const char *const allowed[] = {"aten::copy_", "aten::_copy_from", "aten::index", "aten::_to_copy", "aten::_index_put_impl_",
                                          "aten::index_put_", "aten::_unsafe_index", "aten::set_"};
    for (const char *each : allowed)
        if (name.rfind(each, 0) == 0) return true;
    return false;
}

struct Arguments {
    std::vector<std::pair<at::Tensor, at::Tensor>> pairs; /* there, host */
    bool foreign = false;                                 /* a tensor of the processor that is no number */

    at::Tensor take(const at::Tensor &t)
    {
        if (!is_there(t)) {
            foreign = foreign || (t.defined() && t.dim() > 0);
            return t;
        }
        pairs.emplace_back(t, host_of(t));
        return pairs.back().second;
    }
    /* An operator may have given an output another size. */
    void settle() const
    {
        for (auto &[there, host] : pairs) {
            if (there.data_ptr() != host.data_ptr()) there.unsafeGetTensorImpl()->set_storage_keep_dtype(there_of(host).storage());
            if (there.sizes() != host.sizes() || there.strides() != host.strides())
                there.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
        }
    }
    at::Tensor give(const at::Tensor &host) const
    {
        if (!host.defined() || is_there(host)) return host;
        for (auto &pair : pairs) {
            if (host.unsafeGetTensorImpl() == pair.second.unsafeGetTensorImpl()) return pair.first;
            if (host.storage().unsafeGetStorageImpl() == pair.second.storage().unsafeGetStorageImpl())
                return with_storage(pair.first.storage(), host);
        }
        return there_of(host);
    }
};

/* Any operator, on the same memory. */
void run(const c10::OperatorHandle &op, torch::jit::Stack *stack)
{
    const auto &schema = op.schema();
    const std::string name = schema.name();
    const size_t count = schema.arguments().size(), first = stack->size() - count;
    Arguments arguments;
    bool to_host = false;
    for (size_t i = first; i < stack->size(); i++) {
        c10::IValue &value = (*stack)[i];
        if (value.isTensor())
            value = arguments.take(value.toTensor());
        else if (value.isTensorList() || value.isOptionalTensorList()) {
            c10::List<std::optional<at::Tensor>> optional;
            c10::List<at::Tensor> plain;
            for (const c10::IValue &each : value.toListRef()) {
                at::Tensor t = each.isNone() ? at::Tensor() : arguments.take(each.toTensor());
                plain.push_back(t);
                optional.push_back(each.isNone() ? std::nullopt : std::optional<at::Tensor>(t));
            }
            if (value.isTensorList())
                value = plain;
            else
                value = optional;
        } else if (value.isDevice()) {
            to_host = value.toDevice().is_cpu();
            value = c10::Device(c10::kCPU);
        }
    }
    TORCH_CHECK(!(arguments.foreign && !arguments.pairs.empty()) || mixes(name), name,
                ": Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!");
    transfers += name == "aten::_local_scalar_dense" || name == "aten::equal" || name == "aten::nonzero" || to_host;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    arguments.settle();
    for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); i++) {
        c10::IValue &value = (*stack)[i];
        if (value.isTensor() && !to_host)
            value = arguments.give(value.toTensor());
        else if (value.isTensorList() && !to_host) {
            c10::List<at::Tensor> given;
            for (const at::Tensor &each : value.toTensorVector()) given.push_back(arguments.give(each));
            value = given;
        }
    }
}

/* To the processor and back; `self` decides the key of _copy_from, so both directions come here. */
at::Tensor &copy(at::Tensor &self, const at::Tensor &from, bool)
{
    transfers += is_there(from) && !is_there(self);
    at::Tensor to = is_there(self) ? host_of(self) : self;
    to.copy_(is_there(from) ? host_of(from) : from);
    return self;
}

at::Tensor to_copy(const at::Tensor &self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                   std::optional<at::Device> device, std::optional<bool>, bool, std::optional<at::MemoryFormat> format)
{
    bool there = device.has_value() ? device->is_cuda() : is_there(self);
    transfers += is_there(self) && !there;
    at::Tensor host = at::_to_copy(is_there(self) ? host_of(self) : self, dtype, layout, c10::Device(c10::kCPU), false, false, format);
    return there ? there_of(host) : host;
}

}

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run>()); }
TORCH_LIBRARY_IMPL(aten, CUDA, m)
{
    m.impl("copy_", &copy);
    m.impl("_to_copy", &to_copy);
}

/* For the script: a tensor of the processor to CUDA. */
TORCH_LIBRARY(on_host, m)
{
    m.def("there(Tensor host) -> Tensor", [](const at::Tensor &host) { return there_of(host.contiguous()); });
}
