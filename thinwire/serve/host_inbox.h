// What a courier's thread passes to the thread that ticks a coordinator's host.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/mutex.h"
#include "thinwire/membership/messages.h"
#include "thinwire/transport/courier/blob.h"

namespace thinwire::serve {

struct ReceivedStatement {
  Bytes bytes;
};
// The network's statements about connections that ended (transport/courier/courier.h).
struct ReceivedDeparture {
  Bytes bytes;
};
struct ReadRecord {
  uint64_t reading;  // the subscription that it is from
  uint64_t sequence;
  Bytes bytes;
};
struct FetchedPayload {
  membership::Offer offer;
  Result<Bytes> bytes;
};
// The last sequence of the ledger's stream.
struct StreamEnd {
  uint64_t reading;  // the subscription at the time of the request
  uint64_t known;    // what had been read by then
  Result<uint64_t> last;
};
// An append was refused because the stream's last sequence was not the expected one.
struct RefusedAppend {
  uint64_t reading;
};
// How many chunks there are in the store.
struct CountedStore {
  Result<uint64_t> chunks;
};
// The blobs that a member has in the store.
struct ListedMember {
  int member;
  Result<std::vector<transport::StoredBlob>> blobs;
};
// The coordinator's own blobs, but for copies of members' payloads.
struct OwnBlobs {
  Result<std::vector<transport::StoredBlob>> blobs;
};
// A payload of which a copy could not be stored.
struct UnkeptPayload {
  uint64_t round;
  std::shared_ptr<const Bytes> bytes;
};
// A contribution to a sum that the host forms (sum_maker.h).
struct FetchedPart {
  uint64_t job;
  size_t index;
  Result<Bytes> bytes;
};
// A sum that the host formed was stored, or not.
struct StoredSum {
  membership::Sum sum;
  size_t contributions;
  uint64_t bytes;  // of each, the mean
  double begun;    // when the first of them was requested
  Result<void> done;
};
using Arrival = std::variant<ReceivedStatement, ReceivedDeparture, ReadRecord, FetchedPayload,
                             StreamEnd, RefusedAppend, CountedStore, ListedMember, OwnBlobs,
                             UnkeptPayload, FetchedPart, StoredSum>;

// Thread-safe.
class Inbox {
 public:
  void add(Arrival arrival) {
    const Lock lock(mutex_);
    arrivals_.push_back(std::move(arrival));
    arrived_.notify_all();
  }
  std::deque<Arrival> take() {
    const Lock lock(mutex_);
    return std::exchange(arrivals_, {});
  }
  void wait(double seconds) {
    const Lock lock(mutex_);
    arrived_.wait_for(mutex_, std::chrono::duration<double>(seconds),
                      [this]() REQUIRES(mutex_) { return !arrivals_.empty(); });
  }

 private:
  Mutex mutex_;
  Condition arrived_;
  std::deque<Arrival> arrivals_ GUARDED_BY(mutex_);
};

}  // namespace thinwire::serve
