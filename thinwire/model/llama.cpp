#include "thinwire/model/llama.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/model/llama_engine.h"
#include "thinwire/model/llama_torch.h"
#include "thinwire/tensor/gemm.h"

namespace thinwire::model {

Placement parse_device(std::string_view text, int worker) {
  if (text == "cpu") return {};
  if (text == "torch_cpu") return tensor::DevicePlace{};
  const int count = tensor::cuda_device_count();
  if (text == "auto" && count == 0) return {};
  if (text != "cuda" && text != "auto") {
    throw UsageError(
        fmt::format("[train] device must be cpu, cuda, auto or torch_cpu, got \"{}\"", text));
  }
  if (count == 0) {
    throw UsageError(
        fmt::format("[train] device = cuda, but {}; choose cpu or auto", tensor::cuda_status()));
  }
  return tensor::DevicePlace{Device::kCuda, worker % count};
}

Precision parse_precision(std::string_view text, const Placement& placement) {
  if (text == "fp32") return Precision::kFp32;
  if (text == "bf16") return Precision::kBf16;
  if (text == "auto") {
    const bool gpu = placement && placement->kind == Device::kCuda;
    return gpu || tensor::has_fast_bf16_gemm() ? Precision::kBf16 : Precision::kFp32;
  }
  throw UsageError(fmt::format("[train] precision must be fp32, bf16 or auto, got \"{}\"", text));
}

Recompute parse_recompute(std::string_view text) {
  if (text == "none") return Recompute::kNone;
  if (text == "attention") return Recompute::kAttention;
  if (text == "block") return Recompute::kBlock;
  throw UsageError(
      fmt::format("[model] recompute must be none, attention or block, got \"{}\"", text));
}

Llama::Llama(const config::ModelSection& model, Precision precision, const tensor::Layout& layout,
             tensor::Arena& params, ThreadPool& threads, int64_t max_rows, int64_t sequence,
             const Placement& placement) {
  if (placement) {
    engine_ = make_torch_engine(*placement, model, precision, layout, params, threads, max_rows,
                                sequence);
  } else if (precision == Precision::kBf16) {
    engine_ =
        std::make_unique<LlamaEngine<Bf16>>(model, layout, params, threads, max_rows, sequence);
  } else {
    engine_ =
        std::make_unique<LlamaEngine<float>>(model, layout, params, threads, max_rows, sequence);
  }
}

Llama::~Llama() = default;

double Llama::loss_and_gradients(std::span<const int32_t> tokens, int64_t rows,
                                 float gradient_scale, tensor::Arena& gradients,
                                 const std::function<void(int layer)>& layer_ready,
                                 Gradients mode) {
  return engine_->loss_and_gradients(tokens, rows, gradient_scale, gradients, layer_ready, mode);
}

double Llama::loss(std::span<const int32_t> tokens, int64_t rows) {
  return engine_->loss(tokens, rows);
}

void Llama::refresh() { engine_->refresh(); }

PassTimes Llama::times() const { return engine_->times(); }

size_t Llama::activation_bytes() const { return engine_->bytes(); }

void init_llama(tensor::Arena& params, const config::ModelSection& model, uint64_t seed) {
  const double residual = 1.0 / std::sqrt(2.0 * static_cast<double>(model.layers));
  for (size_t i = 0; i < params.layout().size(); ++i) {
    const TensorSpec& spec = params.layout().specs()[i];
    const std::span<float> values = params.tensor(i);
    if (spec.role == TensorRole::kNorm) {
      std::fill(values.begin(), values.end(), 1.0f);
      continue;
    }
    const bool adds_to_residual =
        spec.name.ends_with("o_proj.weight") || spec.name.ends_with("down_proj.weight");
    const double deviation = model.init_std * (adds_to_residual ? residual : 1.0);
    Rng rng(derive_seed(seed, spec.name), 0);
    for (float& value : values) value = static_cast<float>(deviation * rng.normal());
  }
}

}  // namespace thinwire::model
