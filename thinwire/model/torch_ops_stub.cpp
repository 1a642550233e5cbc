// torch_ops.h without LibTorch.
#include "thinwire/base/error.h"
#include "thinwire/model/torch_ops.h"

namespace thinwire::model {

std::unique_ptr<Ops> make_torch_ops(const ModelParts&, int64_t) {
  throw Error("LibTorch's backend in a program that was built without LibTorch");
}

}  // namespace thinwire::model
