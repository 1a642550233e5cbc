#include "thinwire/model/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/model/torch_ops.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::model {

Placement placement_of(config::DeviceChoice device, int worker, std::string_view given) {
  using config::DeviceChoice;
  if (device == DeviceChoice::kCpu) return {};
  if (device == DeviceChoice::kTorchCpu) {
    if (!has_torch_ops()) {
      throw UsageError(
          fmt::format("{} torch_cpu, but this program was built without LibTorch (docs/gpu.md says "
                      "how it is built with it); choose cpu",
                      given));
    }
    return tensor::DevicePlace{};
  }
  const int count = tensor::cuda_device_count();
  if (device == DeviceChoice::kAuto && count == 0) return {};
  if (count == 0) {
    throw UsageError(
        fmt::format("{} cuda, but {}; choose cpu or auto", given, tensor::cuda_status()));
  }
  return tensor::DevicePlace{Device::kCuda, worker % count};
}

Precision precision_on(const Placement& placement, Precision precision) {
  if (precision != Precision::kAuto) return precision;
  const bool gpu = placement && placement->kind == Device::kCuda;
  return gpu || tensor::has_fast_bf16_gemm() ? Precision::kBf16 : Precision::kFp32;
}

void init_parameters(tensor::Arena& params, const method::ModelSpec& model, uint64_t seed) {
  ThreadPool calling(1);
  init_parameters(params, model, seed, calling);
}

void init_parameters(tensor::Arena& params, const method::ModelSpec& model, uint64_t seed,
                     ThreadPool& threads) {
  const method::Architecture& architecture = method::find_architecture(model.architecture);
  for (size_t i = 0; i < params.layout().size(); ++i) {
    const TensorSpec& spec = params.layout().specs()[i];
    const method::InitialValues initial = architecture.initial(model, spec);
    tensor::draw_normal(params, i, seed, initial.mean, initial.deviation, threads);
  }
}

}  // namespace thinwire::model
