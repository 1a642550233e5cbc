#include "thinwire/serve/payload_check.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "thinwire/base/sha256.h"
#include "thinwire/codec/payload_reader.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizers.h"
#include "thinwire/method/registry.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::serve {
namespace {

// What payloads are of: gradients as the optimizer takes them, or where workers train independently
// the parameters' differences.
std::vector<TensorSpec> exchanged(const config::Recipe& recipe) {
  std::vector<TensorSpec> tensors = method::tensors_of(recipe);
  if (method::find_method(recipe.sync.method).local_updates) return tensors;
  return method::gradient_tensors(method::optimizer_options(recipe), tensors);
}

}  // namespace

PayloadCheck payload_check(const config::Recipe& recipe, const membership::RecipePlan& plan,
                           uint64_t run, uint64_t seed) {
  const tensor::Layout layout(exchanged(recipe));
  const std::shared_ptr<codec::PayloadReader> reader = codec::make_payload_reader(
      method::sync_spec(recipe).method, layout, recipe.train.workers == 1, seed);
  if (reader == nullptr) return {};
  return [reader, &plan, run](const membership::Offer& offer, uint64_t weight,
                              const Bytes& payload) -> Result<std::optional<PayloadContent>> {
    // A member of the roster that does not contribute to an operation sends this.
    if (payload.empty()) return std::nullopt;
    const auto name = plan.operation_of(offer.round, offer.fragment);
    if (!name) return fail(FailureKind::kCorruptPayload, "the run has no such operation");
    codec::PayloadId id;
    id.run = run;
    id.epoch = offer.epoch;
    id.sender = static_cast<uint32_t>(offer.member);
    id.round = name->round;
    auto content = reader->read(payload, id, name->bytes);
    if (!content) return tl::unexpected(content.error());
    const auto rows = static_cast<double>(weight);
    const double norm = content->magnitude.norm() / (reader->weighted() ? rows : 1);
    return PayloadContent{norm, sha256(content->body), std::move(content->direction), rows};
  };
}

}  // namespace thinwire::serve
