// Collective operations between the members of a run: all_gather, after which everybody has
// everybody's payload, and all_reduce, after which everybody has the same sum. Both are started and
// then waited for; meanwhile they proceed behind compute, on the transport's own thread. Nothing is
// averaged in place: only a wait writes to the caller's memory.
//
// One thread of a member calls its communicator and the communicators split from it; abort may come
// from any thread. Failures that a network can cause are Results. After kAborted every later wait
// fails in the same way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/commit.h"
#include "thinwire/base/error.h"
#include "thinwire/base/round.h"
#include "thinwire/base/wire.h"

namespace thinwire::transport {

// Both sides of a frame must agree on all of it.
using Key = OperationKey;

// A payload as committed. Bytes are shared between members of one process and never written again.
struct Delivery {
  int member = 0;
  std::shared_ptr<const Bytes> payload;
};

// Bytes this member's own frames took since the start.
struct TrafficCount {
  uint64_t sent = 0;      // a payload for everybody counts once
  uint64_t received = 0;  // others' payloads and sums
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  // Members the run started with; their ranks are 0 .. size-1.
  virtual int size() const = 0;

  // Offers `payload` to every member of the round. One call a key.
  virtual void start_all_gather(const Key& key, Bytes payload) = 0;
  // The committed payloads ordered by rank, this member's own included, the same list for everyone.
  // A member that left is missing from it; kDeadline when a present one does not deliver in time.
  virtual Result<std::vector<Delivery>> wait_all_gather(const Key& key, double timeout_s) = 0;

  // Starts the sum over members of `values` (same length and codec everywhere; unchanged until
  // waited for or cancelled). Each member owns a chunk (wire_chunk), sums it in fp32 from 0 in
  // member order over contributions as the codec passes them on, codes the sum once, and everyone
  // (the owner too) gets the sum as decoded.
  virtual void start_all_reduce(const Key& key, std::span<const float> values,
                                const WireCodec& codec) = 0;
  // Writes the sum into `out`, the same bits for everyone. kLostPeer when a member left before all
  // had contributed and the sum was formed, kCorruptPayload when the codec refuses a contribution.
  virtual Result<void> wait_all_reduce(const Key& key, std::span<float> out, double timeout_s) = 0;

  // Gives up an operation this member started.
  virtual void cancel(const Key& key) = 0;

  // A communicator of some of the members: `members` are ranks here, ascending, this member's among
  // them; the i-th has rank i there. Each of them asks for the same list. Communicators with the
  // same list are one group, whose keys are apart from this one's. Leaving and aborting concern the
  // whole run, and the group's traffic counts here too.
  virtual std::unique_ptr<Communicator> split(std::span<const int> members) = 0;

  // This member goes for good; others go on without it or fail with kLostPeer.
  virtual void leave() = 0;
  // Ends the run for everybody: all present and later waits fail with kAborted and this reason.
  virtual void abort(const std::string& reason) = 0;

  virtual TrafficCount traffic() const = 0;
};

// Throws Error unless a communicator can be split off for `members`.
void check_split(std::span<const int> members, const Communicator& communicator);

}  // namespace thinwire::transport
