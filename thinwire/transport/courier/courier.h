// What carries a run between hosts. It carries three kinds of things: blobs (blob.h), which are
// fetched by name; statements, which are small messages from one participant to all current
// subscribers; and records, which are appended to streams in an order that is the same for
// everyone. Payloads, sums and snapshots are blobs; offers, leave notices and the like are
// statements about them; a run's ledger is a stream.
//
// A participant is known by its name, a short text (is_courier_name). The network keeps
// participants from publishing under each other's names, but it is not trusted: anything that
// matters is signed by its author (docs/security.md). `from` below is therefore only where a
// statement claims to come from.
//
// Threads. Every call returns at once and may come from any thread. Answers arrive by callback, one
// at a time and with no locks held, on a thread that belongs to the courier (MemoryNetwork: on the
// thread that runs it). Callbacks must be quick, and may call the courier. The callback of a
// request is called exactly once, at the latest by the destructor, with kAborted; the callback of a
// subscription is not called after the subscription ends. A courier must not be destroyed by a
// callback, and its subscriptions must end before it does.
//
// Failures of all calls: kDeadline, no answer within the courier's time-out, so it is unknown
// whether the request was carried out; kRefused, not allowed, too long, or no space; kAborted, the
// courier was closed. The courier restores lost connections, and what was in flight continues.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/transport/courier/blob.h"

namespace thinwire::transport {

// Order of precedence on a shared link, in each direction separately.
enum class Priority : uint8_t {
  kRound,    // what others are waiting for
  kCatchUp,  // past rounds
  kBulk,     // snapshots, data
};

// At least this many chunks of a holder are listed.
inline constexpr size_t kMaxListedChunks = 100'000;

// Ends when destroyed; none of its callbacks run after that. The destructor waits for a callback
// that is running, unless that callback itself called the destructor.
class Subscription {
 public:
  virtual ~Subscription() = default;
};

// 1 to 64 of A-Z, a-z, 0-9, "-" and "_": the names of participants, topics and streams.
bool is_courier_name(std::string_view text);
// Throws UsageError that says what is being named, the text, and what would be valid.
void check_courier_name(std::string_view what, std::string_view text);
// Checks the name of a message's topic or stream in the same way. Also throws Error if the message
// is longer than kMaxMessageBytes.
void check_message(std::string_view what, std::string_view name, size_t bytes);

class Courier {
 public:
  using Done = std::function<void(Result<void>)>;
  using Got = std::function<void(Result<Bytes>)>;
  using Appended = std::function<void(Result<uint64_t>)>;
  using Counted = std::function<void(Result<uint64_t>)>;
  using Listed = std::function<void(Result<std::vector<StoredBlob>>)>;
  using OnStatement = std::function<void(const std::string& from, Bytes statement)>;
  using Take = std::function<void(uint64_t sequence, Bytes record)>;

  virtual ~Courier() = default;

  virtual const std::string& self() const = 0;
  // Whether the network can be reached at the moment.
  virtual bool connected() const = 0;
  // Why the network no longer lets this participant in, shown to users; empty: it does. Nothing is
  // sent or received from then on. It is quick, and may be called with locks held.
  virtual std::string denied() const { return ""; }

  // Stores a blob under this participant's name. Once `done` is called without a failure, the blob
  // is on disk as far as the network promises, and anybody can fetch it. The time-out applies to
  // each chunk, from when it was sent. Returns the blob's name and length.
  virtual BlobId put(std::shared_ptr<const Bytes> blob, Priority priority, Done done) = 0;
  // Fetches a blob from those who stored it, with chunks from all of them at once. Every chunk is
  // checked; if one is missing, altered, or not answered in time, the next holder is asked for it.
  // kLostPeer: nobody has it; kCorruptPayload: nobody has it unaltered; kDeadline: nobody who
  // answered has it. A blob that is being fetched already is fetched once, from all holders. Chunks
  // that arrived are kept after a failure, for the next request for the same blob. A blob longer
  // than the courier's limit is refused before anything is allocated.
  void get(const BlobId& id, std::vector<std::string> holders, Priority priority, Got got) {
    get_part(id.name, id, std::move(holders), priority, std::move(got));
  }
  // The same for the list of a blob's chunks (list_of), or for one of its chunks.
  virtual void get_part(const Sha256& blob, const BlobId& part, std::vector<std::string> holders,
                        Priority priority, Got got) = 0;
  // Deletes a blob of `holder` from the store; for coordinators. It is no failure if the store has
  // nothing of it.
  virtual void drop(const Sha256& blob, const std::string& holder, Done done) = 0;

  // Gives the number of chunks that everybody together has in the store, or the blobs of which
  // `holder` has any, in any order; of more than kMaxListedChunks chunks only some. For
  // coordinators.
  virtual void count(Counted counted) = 0;
  virtual void list(const std::string& holder, Listed listed) = 0;

  // Where every site has a server of its own: has the server of `site` keep what `holder` stores
  // from now on; for coordinators. Nothing is done if it does so already. kRefused, with a reason
  // for users, if no server is at this site, or if another one keeps the holder's chunks. Elsewhere
  // it is refused, before this returns.
  virtual void place(const std::string& holder, const std::string& site, const Done& done);

  // Sends to all current subscribers. A statement may be lost, arrive twice, or arrive after a
  // later one. One that must arrive has to be repeated until an answer shows that it did. Throws
  // Error for more than kMaxMessageBytes.
  virtual void publish(const std::string& topic, Bytes statement) = 0;
  // A participant's statements on a topic; if either is empty, it matches all. Receives statements
  // made after the subscription has reached the network, which it has once any later request is
  // answered.
  virtual std::unique_ptr<Subscription> subscribe(const std::string& from, const std::string& topic,
                                                  OnStatement on_statement) = 0;

  // Appends a record if the stream's last sequence is `expected_last` (0: the stream is empty).
  // Gives the new record's sequence once it is stored as durably as a blob. kStaleRound: the last
  // sequence is a different one. After kDeadline, read the stream to see what is there. Throws
  // Error for more than kMaxMessageBytes.
  virtual void append(const std::string& stream, uint64_t expected_last, Bytes record,
                      Appended appended) = 0;
  // Gives the stream's last sequence; 0: it is empty. A server that lost its power may have lost
  // records that it had acknowledged.
  virtual void last(const std::string& stream, Appended answered) = 0;
  // Gives every record from sequence `first` (>= 1) on, both existing and future ones, in order and
  // each exactly once, whatever happens to the connection.
  virtual std::unique_ptr<Subscription> read(const std::string& stream, uint64_t first,
                                             Take take) = 0;
};

// The server's notices that a connection to it has begun or ended: statements of kServerParticipant
// on kArrivalTopic and kDepartureTopic, which only coordinators receive. They are JSON as
// nats-server writes it, of which only what follows is read.

// No participant has this name, because their names are derived from their keys (base/nkey.h).
inline constexpr const char* kServerParticipant = "server";
inline constexpr const char* kArrivalTopic = "arrival";
inline constexpr const char* kDepartureTopic = "departure";

struct ConnectionNotice {
  PublicKey owner;          // who may have other connections
  uint64_t connection = 0;  // its number; a server gives each one once
  bool operator==(const ConnectionNotice&) const = default;
};

// Total: nothing for other bytes.
std::optional<ConnectionNotice> parse_connection_notice(std::span<const uint8_t> statement);

}  // namespace thinwire::transport
