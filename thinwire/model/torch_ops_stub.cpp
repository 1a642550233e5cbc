// torch_ops.h without LibTorch.
#include "thinwire/base/error.h"
#include "thinwire/model/torch_ops.h"

namespace thinwire::model {

bool has_torch_ops() { return false; }

std::unique_ptr<Ops> make_torch_ops(const ModelParts&, int64_t) {
  throw Error("the LibTorch backend was asked for in a program built without LibTorch");
}

std::unique_ptr<Decoding> make_torch_decoding(const DecoderParts&) {
  throw Error("the LibTorch backend was asked for in a program built without LibTorch");
}

}  // namespace thinwire::model
