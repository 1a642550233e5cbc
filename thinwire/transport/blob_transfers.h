// The blobs that one participant is storing and fetching: which chunk goes next over the wire, and
// what its answer means. Both directions go on at once; in each, the highest priority goes first,
// chunk by chunk, and within it what was asked for first. So many chunks are under way that they
// are answered in a quarter to half a second: enough for long lines, and little in front of a chunk
// that is urgent.
//
// A pure state machine, the same for every courier: it has no threads and no clock, and times are
// seconds of any clock that never goes back. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/transport/blob.h"
#include "thinwire/transport/courier.h"

namespace thinwire::transport {

// How single chunks move. A call must not answer before it returns.
class ChunkWire {
 public:
  virtual ~ChunkWire() = default;
  // To be answered by BlobTransfers::stored. The chunk's bytes stay until then.
  virtual void store(uint64_t ticket, const Chunk& chunk) = 0;
  // To be answered by BlobTransfers::fetched.
  virtual void fetch(uint64_t ticket, const Sha256& name, const std::string& holder) = 0;
};

class BlobTransfers {
 public:
  BlobTransfers(ChunkWire& wire, double timeout_s, uint64_t max_blob_bytes);

  void put(double now, std::shared_ptr<const BlobChunks> blob, Priority priority,
           Courier::Done done);
  void get(double now, const BlobId& id, std::vector<std::string> holders, Priority priority,
           Courier::Got got);

  // Answers of the wire; of a ticket that is unknown, or known no more, they are ignored.
  void stored(double now, uint64_t ticket, Result<void> result);
  // kLostPeer where the holder has no such chunk.
  void fetched(double now, uint64_t ticket, Result<Bytes> chunk);
  // The connection is back: whatever was under way is sent again.
  void resend(double now);
  // Fails what waited for an answer too long.
  void expire(double now);
  // When expire() has something to do; infinity: never.
  double next_deadline() const;
  // Everything fails.
  void close(const Failure& failure);

  // Callbacks with their answers, to be called in order and with no locks held.
  std::deque<std::function<void()>> take_answers() { return std::exchange(answers_, {}); }

 private:
  struct Put {
    std::shared_ptr<const BlobChunks> blob;
    Priority priority;
    Courier::Done done;
    size_t next = 0;  // chunk
    size_t stored = 0;
  };
  struct Get {
    BlobId id;
    std::vector<std::string> holders;
    Priority priority;
    std::vector<Courier::Got> gots;
    BlobAssembly assembly;
    std::map<Sha256, size_t> refusals;  // holders that did not give a chunk
    bool altered = false;               // some of them gave another
  };
  struct Flight {
    uint64_t transfer;
    Sha256 name;
    size_t place = 0;  // of the chunk in what is put; of the holder in what is fetched
    double sent;
    double deadline;
  };
  struct Lane {
    std::map<uint64_t, Flight> flights;  // by ticket
    size_t window = 2;
  };

  void pump(double now);
  bool send_next(double now);
  bool ask_next(double now);
  std::optional<Flight> land(Lane& lane, uint64_t ticket, double now);
  void asked_in_vain(uint64_t transfer, Get& get, const Sha256& name, const Failure& failure);
  void fail_put(uint64_t transfer, const Failure& failure);
  void fail_get(uint64_t transfer, const Failure& failure);
  void answer(const Get& get, const Result<Bytes>& result);
  static void forget(Lane& lane, uint64_t transfer);
  static void expire(Lane& lane, double now, const std::function<void(uint64_t)>& fail);

  ChunkWire& wire_;
  const double timeout_s_;
  const uint64_t max_blob_bytes_;
  uint64_t last_number_ = 0;  // of transfers and tickets
  std::map<uint64_t, Put> puts_;
  std::map<uint64_t, Get> gets_;
  Lane up_, down_;
  std::deque<std::pair<BlobId, BlobAssembly>> partial_;  // of fetches that failed
  std::deque<std::function<void()>> answers_;
};

}  // namespace thinwire::transport
