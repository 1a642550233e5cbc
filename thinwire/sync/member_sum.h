// The sum of what members contribute to an operation, weighted by their shares, by any rule of
// sync.aggregate (docs/aggregation.md). The mean is an all_reduce, unless the caller wants none of
// what it loses by encoding the sum. Any other rule needs every single contribution. Then they are
// gathered, in the same number format, and each member aggregates them locally, so it
// receives members - 1 times the encoded buffer. The result is not encoded again.
//
// What cannot be decoded, has the wrong length or a value that is not finite is left out of what is
// gathered; all members leave out the same contributions, and the weights of the rest add up to 1.
// Where none was committed the result is zero.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/aggregate.h"
#include "thinwire/base/round.h"
#include "thinwire/base/wire.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {

// Who contributes to an operation, as ranks of its communicator, and the weight by which each has
// multiplied its values.
struct MemberShares {
  transport::Contributors from;
  std::vector<float> weights;  // by contributor, above 0
};

// The shares of a round's active members.
MemberShares shares_of(const Round& round);

// Functions and their failures are those of transport::Communicator; used by the same thread.
class MemberSum {
 public:
  MemberSum(const AggregateOptions& options, transport::Communicator& communicator)
      : options_(options), communicator_(communicator) {}

  void start(const transport::Key& key, std::span<const float> values, const WireCodec& codec,
             const MemberShares& shares, bool gathered = false);
  Result<bool> left_out(const transport::Key& key, double timeout_s);
  // kCorruptPayload if nothing that was committed counts.
  Result<void> wait(const transport::Key& key, std::span<float> out, double timeout_s);
  void cancel(const transport::Key& key);

 private:
  struct Gathering {
    const WireCodec* codec = nullptr;
    MemberShares shares;
    std::optional<std::vector<transport::Delivery>> committed;
  };

  bool gathers(const transport::Key& key) const { return gathering_.contains(key); }
  Result<void> gather(const transport::Key& key, Gathering& gathering, double timeout_s);

  const AggregateOptions options_;
  transport::Communicator& communicator_;
  std::map<transport::Key, Gathering> gathering_;
};

}  // namespace thinwire::sync
