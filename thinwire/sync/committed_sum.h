// The sum determined by a commit. Every member can form it from what the commit lists
// (member/committed_communicator.h); under sync.sums the coordinator does it for them
// (sum_maker.h). The bits are the same.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/commit.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/wire.h"
#include "thinwire/config/recipe.h"
#include "thinwire/sync/member_sum.h"
#include "thinwire/transport/chunked_sum.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {

// One sum, of contributions that are added one after the other, of which only one need be in
// memory. One thread at a time.
class RunningSum {
 public:
  virtual ~RunningSum() = default;
  // `share`: its member's, in the batch of the contribution's round. After a failure the sum is of
  // no use.
  virtual Result<void> add(const transport::Delivery& contribution, float share) = 0;
  // Encoded. `factor`: membership::mean_factor, for sums of values that members have weighted.
  virtual Result<Bytes> finish(float factor) = 0;
};

// Which sums the coordinator forms for members, and how: of dense values, or of gathered payloads.
struct SumRule {
  config::Sums who = config::Sums::kAuto;
  const WireCodec* codec = nullptr;                        // of dense values; null: of the others
  std::shared_ptr<const GatheredSums> gathered = nullptr;  // of payloads

  // Whether it forms the sum of what this commit lists (method::coordinator_sums).
  bool applies(const Commit& commit) const;
  // Of the encoded sum of what is listed; of payloads at most.
  uint64_t bytes(const std::vector<Contribution>& listed) const;
  // What is said of its number format: fp32 for payloads, whose sums name their own.
  WireType format() const;
  // Whether so many bytes are the encoded sum of what is listed.
  bool fits(uint64_t size, const std::vector<Contribution>& listed) const;
  std::unique_ptr<RunningSum> begin(const std::vector<Contribution>& listed) const;
};
// Empty if the coordinator forms none: by the recipe, or because its members need every
// contribution.
std::optional<SumRule> sum_rule(const config::Recipe& recipe);

// The listed contributions that are not empty, which are the ones that are summed.
std::vector<Contribution> summed(const Commit& commit);
// Says which contributions these are, and in what order.
Sha256 digest_of(const std::vector<Contribution>& listed);

// Bytes of the encoded sum of contributions that have `bytes` each.
uint64_t sum_bytes(const WireCodec& codec, uint64_t bytes);

// out := Q(factor * sum of the contributions as decoded), in their order and with the arithmetic of
// transport/chunked_sum.h; without the factor where words are added (WireCodec::add).
// kCorruptPayload names the member whose contribution has another length than `out` encoded, or
// does not decode.
Result<void> sum_committed(const WireCodec& codec, const std::vector<transport::Delivery>& listed,
                           float factor, std::span<float> out, transport::CodedSum& memory);

// The same: what sum_committed leaves in `out` is what the encoded sum decodes to. 4 bytes a value.
class DenseSum final : public RunningSum {
 public:
  // `bytes`: of each contribution.
  DenseSum(const WireCodec& codec, uint64_t bytes);

  // Fails as sum_committed does.
  Result<void> add(const transport::Delivery& contribution, float share) override;
  Result<Bytes> finish(float factor) override;

 private:
  const WireCodec& codec_;
  const uint64_t bytes_;
  std::vector<float> sum_;
  transport::CodedSum memory_;
};

}  // namespace thinwire::sync
