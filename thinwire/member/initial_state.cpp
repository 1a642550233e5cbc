#include "thinwire/member/initial_state.h"

#include <algorithm>
#include <utility>

#include "thinwire/member/member.h"
#include "thinwire/member/snapshot.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/initial_model.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/transport/courier/blob.h"

namespace thinwire::member {

InitialState make_initial_state(const config::Recipe& recipe, const data::Vocabulary& vocabulary,
                                const Sha256& recipe_hash, uint64_t run,
                                std::vector<PublicKey> coordinators) {
  check_hosted(recipe);
  train::require_initial_model(recipe);
  const tensor::Layout layout(method::tensors_of(recipe));
  tensor::Arena weights(layout);
  train::set_initial_parameters(recipe, &vocabulary, weights);
  auto bytes =
      std::make_shared<const Bytes>(encode_snapshot(run, 0, std::as_const(weights).all(), {}));
  const transport::BlobId id = transport::blob_id(*bytes);
  std::ranges::sort(coordinators);
  return {{run, recipe_hash, id.name, id.bytes, std::move(coordinators)}, std::move(bytes)};
}

}  // namespace thinwire::member
