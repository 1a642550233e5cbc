// llama_torch.h without LibTorch.
#include "thinwire/base/error.h"
#include "thinwire/model/llama_torch.h"

namespace thinwire::model {

std::unique_ptr<Llama::Engine> make_torch_engine(const tensor::DevicePlace&,
                                                 const config::ModelSection&, Precision,
                                                 const tensor::Layout&, tensor::Arena&, ThreadPool&,
                                                 int64_t, int64_t, int64_t) {
  throw Error("LibTorch's engine in a program that was built without LibTorch");
}

}  // namespace thinwire::model
