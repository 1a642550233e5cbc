#include "thinwire/model/llama.h"

#include "thinwire/base/bf16.h"
#include "thinwire/model/llama_engine.h"
#include "thinwire/model/llama_torch.h"

namespace thinwire::model {

std::unique_ptr<Model> make_llama(const ModelParts& parts) {
  if (parts.placement) return make_torch_llama(parts);
  if (parts.precision == Precision::kBf16) return std::make_unique<LlamaEngine<Bf16>>(parts);
  return std::make_unique<LlamaEngine<float>>(parts);
}

}  // namespace thinwire::model
