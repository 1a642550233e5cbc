// Requests to JetStream and its answers, in its JSON. Pure and total.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/nats/nats_subjects.h"

namespace thinwire::transport {

// Upper bound on the part of a message that is not its body.
inline constexpr size_t kMaxHeaderBytes = 4 << 10;

// How much of a run the server keeps.
struct StoreLimits {
  int64_t chunk_bytes = -1;  // of all chunks together; -1: as much as the disk holds
  int replicas = 1;          // how many servers of a cluster keep everything
  std::string site = {};     // a tag of the server that keeps it; empty: any
};

// Requests that create the stores of a run. An identical existing store is left as it is. `holder`:
// whose chunks the store keeps; "*": everybody's.
std::string chunk_store_request(const NatsSubjects& subjects, const std::string& holder,
                                const StoreLimits& limits);
std::string record_store_request(const NatsSubjects& subjects, const std::string& stream,
                                 const StoreLimits& limits);
// Removes everything stored under a subject.
std::string purge_request(const std::string& subject);
// Asks for the subjects of what is stored under `subjects` (with "*"), beside how much is stored in
// all.
std::string subjects_request(const std::string& subjects);
// Asks for the stores of these subjects (with "*"), from the one with this number on; an answer has
// some of them.
std::string list_request(const std::string& subjects, uint64_t first);
// Asks for the message with this sequence.
std::string get_request(uint64_t sequence);

// The answer to something published into a store: its sequence. kStaleRound if the last sequence
// was not the expected one, kRefused for any other failure. A chunk that already exists counts as
// stored.
Result<uint64_t> parse_store_answer(std::span<const uint8_t> bytes);
// The answer to a question about a store: the sequence of its last message, 0 if it has had none.
Result<uint64_t> parse_last_sequence(std::span<const uint8_t> bytes);
// The same: the number of messages that are stored.
Result<uint64_t> parse_stored_count(std::span<const uint8_t> bytes);
// The same: the site where the store was placed; empty: nowhere in particular.
Result<std::string> parse_site(std::span<const uint8_t> bytes);
// The answer to a list_request.
struct ListedStores {
  uint64_t messages = 0;  // in the stores of this answer
  uint64_t stores = 0;    // in this answer
  uint64_t total = 0;     // that there are
};
Result<ListedStores> parse_listed_stores(std::span<const uint8_t> bytes);
// The answer to subjects_request(subjects.chunk(holder, kAllChunks)). A subject that is not one of
// the holder's chunks' is left out.
Result<std::vector<StoredBlob>> parse_stored_blobs(std::span<const uint8_t> bytes,
                                                   const NatsSubjects& subjects,
                                                   const std::string& holder);
// The answer to the other requests; kRefused if it is a failure.
Result<void> parse_answer(std::span<const uint8_t> bytes);

// What became of a request to create a store.
enum class StoreMade : uint8_t {
  kMade,           // or it exists with the same properties
  kDiffers,        // a store of this name exists with different properties
  kTooFewServers,  // for this many replicas at this site, as far as the cluster knows now
  kNoCluster,      // there is one server, which keeps one replica
  kNotYet,         // the cluster is electing a leader
  kOverlaps,       // another store keeps the same subjects
};
Result<StoreMade> parse_made(std::span<const uint8_t> bytes);

// Whether an answer says that the servers cannot answer at the moment.
bool is_unavailable(std::span<const uint8_t> bytes);
// Whether it is the notice of NatsSubjects::elected.
bool is_election_notice(std::span<const uint8_t> bytes);

}  // namespace thinwire::transport
