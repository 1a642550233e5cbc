// The sum determined by a commit. Every member can form it from what the commit lists
// (member/committed_communicator.h); under sync.sums the coordinator does it for them
// (sum_maker.h). The bits are the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/commit.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/wire.h"
#include "thinwire/config/recipe.h"
#include "thinwire/transport/chunked_sum.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {

// Which sums the coordinator forms for members, and in what number formats it reads contributions
// and stores sums.
struct SumRule {
  config::Sums who = config::Sums::kAuto;
  const WireCodec* codec = nullptr;

  // Whether it forms the sum of what this commit lists (method::coordinator_sums).
  bool applies(const Commit& commit) const;
};
// Empty if the coordinator forms none: by the recipe, or because its method sums no dense values.
std::optional<SumRule> sum_rule(const config::Recipe& recipe);

// The listed contributions that are not empty, which are the ones that are summed.
std::vector<Contribution> summed(const Commit& commit);
// Says which contributions these are, and in what order.
Sha256 digest_of(const std::vector<Contribution>& listed);

// Bytes of the encoded sum of contributions that have `bytes` each.
uint64_t sum_bytes(const WireCodec& codec, uint64_t bytes);

// out := Q(factor * sum of the contributions as decoded), in their order and with the arithmetic of
// transport/chunked_sum.h. kCorruptPayload names the member whose contribution has another length
// than `out` encoded, or does not decode.
Result<void> sum_committed(const WireCodec& codec, const std::vector<transport::Delivery>& listed,
                           float factor, std::span<float> out, transport::CodedSum& memory);

// The same sum of contributions that are added one after the other, of which only one need be in
// memory: 4 bytes a value. One thread at a time.
class RunningSum {
 public:
  // `bytes`: of each contribution.
  RunningSum(const WireCodec& codec, uint64_t bytes);

  // Fails as sum_committed does; the sum is then of no use.
  Result<void> add(const transport::Delivery& contribution);
  // Encoded: what sum_committed leaves in `out` is what this decodes to.
  Result<Bytes> finish(float factor);

 private:
  const WireCodec& codec_;
  const uint64_t bytes_;
  std::vector<float> sum_;
  transport::CodedSum memory_;
};

}  // namespace thinwire::sync
