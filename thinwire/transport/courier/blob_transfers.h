// The blobs that one participant is storing and fetching: which chunk goes over the wire next, and
// what its answer means. Both directions run at once. Each sends the highest priority first, chunk
// by chunk; equal priorities go in the order of the requests. The number of chunks in flight is
// adjusted so that each is answered within a quarter to half a second: enough to fill lines with
// long delays, with little queued ahead of an urgent chunk. Bulk that is stored, such as a
// snapshot, lies before the payloads of rounds on a line that is often thin: it pauses while they
// are sent and for a moment afterwards, so that their offers go first, and half as much of it is in
// flight. One chunk of it goes in between whenever it has waited for eight times as long as its
// last one took, so that it arrives however often payloads are sent.
//
// A pure state machine, the same for every courier. It has no threads and no clock; times are in
// seconds, from any clock that never goes back. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/courier/line_limit.h"
#include "thinwire/transport/task_thread.h"

namespace thinwire::transport {

// How single chunks move. An implementation must not answer a call before that call returns.
class ChunkWire {
 public:
  virtual ~ChunkWire() = default;
  // Answered by BlobTransfers::stored. The chunk's bytes remain valid until then.
  virtual void store(uint64_t ticket, const Chunk& chunk) = 0;
  // Answered by BlobTransfers::fetched.
  virtual void fetch(uint64_t ticket, const ChunkKey& key, const std::string& holder) = 0;
};

class BlobTransfers {
 public:
  // `line`: chunks go and are requested only as it allows, and what is requested is expected there;
  // the wire tells it what is sent and received. Null: there is no limit.
  BlobTransfers(ChunkWire& wire, double timeout_s, uint64_t max_blob_bytes,
                LineLimit* line = nullptr);

  void put(double now, std::shared_ptr<const BlobChunks> blob, Priority priority,
           Courier::Done done);
  // As Courier::get_part. What is being fetched already is fetched once, from the holders of both
  // calls.
  void get(double now, const Sha256& blob, const BlobId& id, std::vector<std::string> holders,
           Priority priority, Courier::Got got);

  // The chunk that a ticket is to store; null once it is answered.
  const Chunk* storing(uint64_t ticket) const;
  // Whether the chunk that a ticket is to fetch is still awaited.
  bool fetching(uint64_t ticket) const { return down_.flights.contains(ticket); }
  // Answers from the wire. Those for tickets that are unknown or already finished are ignored.
  void stored(double now, uint64_t ticket, Result<void> result);
  // `chunk` is kLostPeer if the holder has no such chunk.
  void fetched(double now, uint64_t ticket, Result<Bytes> chunk);
  // The connection is restored: sends everything again that was in flight.
  void resend(double now);
  // Handles answers that are overdue: a put fails, and the next holder is asked for a chunk.
  void expire(double now);
  // The time of the next expire() that has something to do; infinity if there is none.
  double next_deadline() const;
  // Fails every transfer.
  void close(const Failure& failure);

  // Callbacks with their answers. Call them in order and with no locks held.
  std::deque<std::function<void()>> take_answers() { return std::exchange(answers_, {}); }

 private:
  struct Put {
    std::shared_ptr<const BlobChunks> blob;
    Priority priority;
    Courier::Done done;
    size_t next = 0;  // index of the next chunk to send
    size_t stored = 0;
  };
  struct Get {
    Sha256 blob;
    BlobId id;  // of the part
    std::vector<std::string> holders;
    Priority priority;
    std::vector<Courier::Got> callbacks;
    BlobAssembly assembly;
    std::map<Sha256, std::set<size_t>> failed_holders;  // holders that failed to supply a chunk
    bool altered = false;                               // at least one holder gave altered bytes
    bool unanswered = false;                            // at least one did not answer in time
  };
  struct Flight {
    uint64_t transfer;
    Sha256 name;
    size_t place = 0;  // index of the chunk (puts) or of the holder (fetches)
    double sent;
    double deadline;
    size_t expected = 0;  // bytes that were requested
  };
  // How many chunks are in flight: more if answers take less than `quick_s` seconds, fewer if they
  // take more than `slow_s`.
  struct Lane {
    double quick_s = 0.25;
    double slow_s = 0.5;
    size_t least = 2;
    size_t window = least;
    std::map<uint64_t, Flight> flights = {};  // by ticket
  };

  void pump(double now);
  bool may_send(double now) const { return line_ == nullptr || line_->may_send(now); }
  bool may_request(double now) const { return line_ == nullptr || line_->may_request(now); }
  bool send_next(Lane& lane, double now);
  bool stores_bulk() const;
  // When a chunk of bulk goes even if payloads are being sent.
  double bulk_turn() const;
  Lane& up_of(const Put& put) { return put.priority == Priority::kBulk ? bulk_up_ : up_; }
  bool ask_next(double now);
  size_t holder_for(const Get& get, const Sha256& chunk) const;
  std::optional<Flight> land(Lane& lane, uint64_t ticket, double now);
  void fetch_failed(const Flight& flight, const Failure& failure);
  Failure late(const char* what) const;
  void fail_put(uint64_t transfer, const Failure& failure);
  void fail_get(uint64_t transfer, const Failure& failure);
  void answer(const Get& get, const Result<Bytes>& result);
  static void forget(Lane& lane, uint64_t transfer);
  static std::optional<uint64_t> late_ticket(const Lane& lane, double now);

  ChunkWire& wire_;
  LineLimit* const line_;
  double pumped_at_ = 0;
  const double timeout_s_;
  const uint64_t max_blob_bytes_;
  uint64_t last_number_ = 0;  // shared by transfers and tickets
  std::map<uint64_t, Put> puts_;
  std::map<uint64_t, Get> gets_;
  std::set<std::string> silent_;  // holders whose last answer did not come in time
  Lane up_, down_;
  double bulk_from_ = 0;   // when bulk may go on after a payload
  double bulk_since_ = 0;  // when it began, or the last of its chunks was answered
  double bulk_took_ = 0;   // seconds that this chunk took
  Lane bulk_up_{.quick_s = 0.125, .slow_s = 0.25, .least = 1};
  std::deque<std::pair<BlobId, BlobAssembly>> partial_;  // from fetches that failed
  std::deque<std::function<void()>> answers_;
};

// Courier::put and Courier::get for couriers whose transfers belong to a thread.

// The id is known at once; the chunks go out on the thread.
inline BlobId post_put(TaskThread& thread, BlobTransfers& transfers,
                       std::shared_ptr<const Bytes> blob, Priority priority, Courier::Done done) {
  auto chunks = std::make_shared<const BlobChunks>(std::move(blob));
  thread.post([&transfers, chunks, priority, done = std::move(done)] {
    transfers.put(monotonic_seconds(), chunks, priority, done);
  });
  return chunks->id();
}

// std::invalid_argument if the name of a holder is none of a participant.
inline void post_get(TaskThread& thread, BlobTransfers& transfers, const Sha256& blob,
                     const BlobId& part, std::vector<std::string> holders, Priority priority,
                     Courier::Got got) {
  for (const std::string& holder : holders) check_courier_name("a holder", holder);
  thread.post(
      [&transfers, blob, part, holders = std::move(holders), priority, got = std::move(got)] {
        transfers.get(monotonic_seconds(), blob, part, holders, priority, got);
      });
}

}  // namespace thinwire::transport
