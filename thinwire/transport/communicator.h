// Collective operations between the members of a run: all_gather, after which every member has
// every member's payload, and all_reduce, after which every member has the same sum. Both are
// started and later waited for; in between they proceed on the transport's own thread while the
// caller computes. Nothing is averaged in place: only a wait writes to the caller's memory.
//
// Every member is given the same list of contributors to an operation. An inactive member follows
// it: it starts the operation and waits like the others, but sends nothing.
//
// One thread of a member calls its communicator and those split from it; any thread may call abort.
// Failures that a network can cause are Results. After kAborted every later wait fails in the same
// way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/commit.h"
#include "thinwire/base/error.h"
#include "thinwire/base/round.h"
#include "thinwire/base/wire.h"

namespace thinwire::transport {

// Identifies an operation; all its members must agree on every field.
using Key = OperationKey;

// The ranks that contribute to an operation, ascending; the other members follow it. Empty: every
// member contributes.
using Contributors = std::vector<int>;

// A payload as committed. Bytes are shared between members of one process and never written again.
struct Delivery {
  int member = 0;
  std::shared_ptr<const Bytes> payload;
  // Above 0 for a contribution to an earlier round, which arrived late and counts in this one: the
  // share that its rows had in that round's batch.
  float late_share = 0;
};

// What was gathered, for callers that need no more than its encoded sum.
struct Gathered {
  std::vector<Delivery> committed;   // without their payloads where the sum is there
  std::shared_ptr<const Bytes> sum;  // null: the caller forms it
};

// Bytes of this member's own frames since the start.
struct TrafficCount {
  uint64_t sent = 0;      // a payload for everybody counts once
  uint64_t received = 0;  // others' payloads and sums
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  // Number of members with which the run started; their ranks are 0 .. size-1. In a run that others
  // can join it is always more than 1, however many are present.
  virtual int size() const = 0;

  // Sends `payload` to every member of the round; the payload of a member that only follows is
  // ignored. One call per key.
  virtual void start_all_gather(const Key& key, Bytes payload, const Contributors& from) = 0;
  void start_all_gather(const Key& key, Bytes payload) {
    start_all_gather(key, std::move(payload), {});
  }
  // The committed payloads ordered by rank, the same list for everyone. A contributor that left is
  // missing from it, and so is one whose payload came too late for the commit, perhaps this
  // member's own; kDeadline if a remaining one does not deliver in time.
  virtual Result<std::vector<Delivery>> wait_all_gather(const Key& key, double timeout_s) = 0;

  // The same, or the sum of the committed payloads if another has formed it (docs/hosts.md, "Sums")
  // and `accepts` says that the caller has taken it. Empty: the caller wants the payloads.
  using AcceptsSum = std::function<bool(std::span<const uint8_t> sum)>;
  virtual Result<Gathered> wait_gathered(const Key& key, double timeout_s,
                                         const AcceptsSum& /*accepts*/) {
    auto committed = wait_all_gather(key, timeout_s);
    if (!committed) return tl::unexpected(committed.error());
    return Gathered{*std::move(committed), nullptr};
  }

  // Starts the sum over contributors of `values` (same length and codec everywhere; unchanged until
  // waited for or cancelled; of a member that follows only the length counts). Each contributor
  // owns a chunk (wire_chunk), sums it in fp32 from 0 in member order over the contributions as
  // decoded, encodes the sum once, and everyone (including the owner) gets the sum as decoded.
  virtual void start_all_reduce(const Key& key, std::span<const float> values,
                                const WireCodec& codec, const Contributors& from) = 0;
  void start_all_reduce(const Key& key, std::span<const float> values, const WireCodec& codec) {
    start_all_reduce(key, values, codec, {});
  }
  // Waits for the commit of a sum and returns whether it leaves out what this member contributed,
  // whose values are still unchanged at that point. Always false with transports that form a sum
  // from all contributions or not at all.
  virtual Result<bool> left_out(const Key& /*key*/, double /*timeout_s*/) { return false; }
  // Waits for the commit of a sum and returns whose contributions it adds up, ascending. Nothing
  // with transports that form a sum from all contributions or not at all.
  virtual Result<std::optional<Contributors>> counted(const Key& /*key*/, double /*timeout_s*/) {
    return std::nullopt;
  }
  // Whether what is left out may count in a later round, so that its sender must not put it back.
  virtual bool counts_late() const { return false; }
  // Writes the sum to `out`, with the same bits for everyone. kLostPeer if a member left before all
  // had contributed and the sum was formed, kCorruptPayload if the codec refuses a contribution.
  virtual Result<void> wait_all_reduce(const Key& key, std::span<float> out, double timeout_s) = 0;

  // Gives up an operation that this member started.
  virtual void cancel(const Key& key) = 0;

  // A communicator of some of the members: `members` are ranks in this communicator, ascending,
  // including this member's; the i-th has rank i in the new one. Each of them must ask for the same
  // list. Communicators with the same list are one group, whose keys are separate from this one's.
  // Leaving and aborting concern the whole run, and the group's traffic also counts here.
  virtual std::unique_ptr<Communicator> split(std::span<const int> members) = 0;

  // This member leaves for good; others continue without it or fail with kLostPeer.
  virtual void leave() = 0;
  // Ends the run for everybody: all current and later waits fail with kAborted and this reason.
  virtual void abort(const std::string& reason) = 0;

  virtual TrafficCount traffic() const = 0;
};

// Throws Error unless a communicator can be split off for `members`.
void check_split(std::span<const int> members, const Communicator& communicator);

class Carrier;  // carrier.h

// Members as threads of one process. Bytes are passed on without copying, and counted as if they
// were sent; sums are formed from the members' own memory.
//
// A communicator for each of `members` threads; they share a hub that lives as long as any of them.
// `carrier` says when operations have arrived; null: immediately.
std::vector<std::unique_ptr<Communicator>> make_local_communicators(
    int members, std::shared_ptr<Carrier> carrier = nullptr);

}  // namespace thinwire::transport
