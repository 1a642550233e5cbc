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

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/aggregate.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/round.h"
#include "thinwire/base/threads.h"
#include "thinwire/base/wire.h"
#include "thinwire/codec/payload.h"
#include "thinwire/codec/sparse.h"
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

// Sparse payloads are gathered. Where a method says so, their mean has an encoding of its own, and
// all members use what that decodes to, whoever has formed it (docs/hosts.md, "Sums").

// How the payloads that members gather become one sum, of which all of them use what it decodes to
// (fields sum_wire and sum_k).
struct GatheredSums {
  codec::SparseSumForm form;
  // Whether payloads count by their members' shares of the round's batch; otherwise members have
  // multiplied what they send, and all count alike.
  bool by_share = false;
  // The largest sum of so many payloads, in bytes.
  std::function<uint64_t(uint64_t payloads)> bytes;
};

// What a member receives of a round: the mean. Used by one thread.
class GatheredMean {
 public:
  // The threads must outlive it.
  GatheredMean(GatheredSums sums, ThreadPool& threads);

  // For the wait: takes a mean that another has formed.
  transport::Communicator::AcceptsSum accepts();
  // Ends the wait: forms the mean where the payloads have come, each with its weight, above 0. `id`
  // says where they belong, but for their senders. kCorruptPayload or kStaleRound, naming a
  // member, if one of them cannot be read.
  Result<void> take(const transport::Gathered& gathered, const codec::PayloadId& id,
                    std::span<const float> weights);

  // The last one, decoded, and its shapes.
  const codec::SparseMessage& message() const { return message_; }
  std::span<const codec::SparseShape> shapes() const { return shapes_; }
  // Reduces what this member sent to what the mean leaves out of it, so that its sender can keep
  // it; false: nothing (codec::keep_left_out).
  bool keep_left_out(codec::SparseTiles& sent) const;

 private:
  Result<void> form(std::span<const transport::Delivery> committed, const codec::PayloadId& id,
                    std::span<const float> weights);
  Result<void> read(std::span<const uint8_t> message);

  const GatheredSums sums_;
  ThreadPool& threads_;
  const std::vector<codec::SparseShape> sent_shapes_;
  const std::vector<codec::SparseShape> shapes_;  // of the mean
  std::optional<codec::SparseSum> sum_;           // once this member forms one
  codec::SparseMessage message_;
  std::shared_ptr<const Bytes> bytes_;  // of the message
};

}  // namespace thinwire::sync
