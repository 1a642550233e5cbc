// llama_torch.h without LibTorch.
#include "thinwire/base/error.h"
#include "thinwire/model/llama_torch.h"

namespace thinwire::model {

std::unique_ptr<Model> make_torch_llama(const ModelParts&, int64_t) {
  throw Error("LibTorch's engine in a program that was built without LibTorch");
}

}  // namespace thinwire::model
