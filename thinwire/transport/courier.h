// What carries a run between hosts. Three things travel: blobs (blob.h), which are fetched by their
// names; statements, small messages from one participant to whoever listens; and records, appended
// to streams in an order that is the same for everybody. Payloads, sums and snapshots are blobs;
// offers, goodbyes and such are statements about them; a run's ledger is a stream.
//
// A participant is known by its name, a short text (is_courier_name). The network keeps
// participants from publishing under others' names, but is not believed: what matters is signed by
// its author (docs/security.md), so `from` below is where a statement says it comes from.
//
// Threads. Every call returns at once and may come from any thread. Answers come by callbacks, one
// at a time, on a thread of the courier's own (MemoryNetwork: on the one that runs it), with no
// locks held: they are to be quick, and may call the courier. A callback is called exactly once
// unless its subscription ends before, at the latest by the destructor, with kAborted. A courier is
// not destroyed by a callback, and its subscriptions end before it.
//
// Failures of all calls: kDeadline, no answer within the courier's time-out, so that nobody knows
// whether it was done; kRefused, not allowed, too long, or no room; kAborted, the courier was
// closed. Lost connections are taken up again by the courier, and what was under way goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/transport/blob.h"

namespace thinwire::transport {

// What goes first where a link is shared, each way by itself.
enum class Priority : uint8_t {
  kRound,    // what others wait for
  kCatchUp,  // past rounds
  kBulk,     // snapshots, data
};

// Ends by its destruction, after which no callback of it runs; one that runs is waited for, unless
// the destructor is called by it.
class Subscription {
 public:
  virtual ~Subscription() = default;
};

// 1 to 64 of A-Z, a-z, 0-9, "-" and "_": what participants, topics and streams are called.
bool is_courier_name(std::string_view text);
// Throws UsageError naming what it is the name of, the text, and what would be right.
void check_courier_name(std::string_view what, std::string_view text);
// The same of the topic or stream of a message; throws Error too for one of more than
// kMaxMessageBytes.
void check_message(std::string_view what, std::string_view name, size_t bytes);

class Courier {
 public:
  using Done = std::function<void(Result<void>)>;
  using Got = std::function<void(Result<Bytes>)>;
  using Appended = std::function<void(Result<uint64_t>)>;
  using Hear = std::function<void(const std::string& from, Bytes statement)>;
  using Take = std::function<void(uint64_t sequence, Bytes record)>;

  virtual ~Courier() = default;

  virtual const std::string& self() const = 0;
  // Whether the network can be reached just now.
  virtual bool connected() const = 0;

  // Stores a blob under this participant's name. Once `done` has no failure, it is on disk as far
  // as the network promises, and anybody can fetch it. The time-out is of each chunk, from when it
  // was sent. Returns its name and length.
  virtual BlobId put(std::shared_ptr<const Bytes> blob, Priority priority, Done done) = 0;
  // Fetches a blob from those who stored it, chunks from all of them at once; every chunk is
  // checked, and one that is missing or altered is asked of the next. kLostPeer: nobody has it;
  // kCorruptPayload: nobody has it unaltered. Chunks that arrived are kept after a failure, for
  // whoever asks for the same blob next. A blob longer than the courier's limit is refused before
  // anything is allocated.
  virtual void get(const BlobId& id, std::vector<std::string> holders, Priority priority,
                   Got got) = 0;
  // Frees the room that one chunk of `holder` takes, for coordinators; a chunk not there is no
  // failure. The chunks of a blob are BlobChunks::chunks().
  virtual void drop(const Sha256& chunk, const std::string& holder, Done done) = 0;

  // To all who listen just now. May be lost, arrive twice, or later than what was said after it;
  // what has to arrive is said again until an answer shows that it did. At most kMaxMessageBytes,
  // else Error.
  virtual void publish(const std::string& topic, Bytes statement) = 0;
  // Statements of a participant on a topic; either empty: of all. Those from after the subscription
  // has reached the network, which it has once anything asked later is answered.
  virtual std::unique_ptr<Subscription> subscribe(const std::string& from, const std::string& topic,
                                                  Hear hear) = 0;

  // Appends a record if the stream's last sequence is `expected_last` (0: it is empty), and gives
  // the new one's, once it is stored as a blob is. kStaleRound: the last sequence is another one.
  // After kDeadline, read what is there. At most kMaxMessageBytes, else Error.
  virtual void append(const std::string& stream, uint64_t expected_last, Bytes record,
                      Appended appended) = 0;
  // Every record from sequence `first` (>= 1) on, those there and those to come, in order, each
  // once, whatever happens to the connection.
  virtual std::unique_ptr<Subscription> read(const std::string& stream, uint64_t first,
                                             Take take) = 0;
};

}  // namespace thinwire::transport
