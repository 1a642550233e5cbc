// What JetStream is told and answers, in its JSON. Pure and total.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/transport/nats_subjects.h"

namespace thinwire::transport {

// Of a message, beside its body.
inline constexpr size_t kMaxHeaderBytes = 4 << 10;

// How much the server keeps of a run.
struct StoreLimits {
  int64_t chunk_bytes = -1;  // of all chunks together; -1: what the disk holds
  int replicas = 1;          // servers of a cluster that keep everything
};

// Requests that create the stores of a run; a store that is there and alike is left as it is.
std::string chunk_store_request(const NatsSubjects& subjects, const StoreLimits& limits);
std::string record_store_request(const NatsSubjects& subjects, const std::string& stream,
                                 const StoreLimits& limits);
// Removes what a subject has.
std::string purge_request(const std::string& subject);
// The message of a sequence.
std::string get_request(uint64_t sequence);

// The answer to something published into a store: its sequence. kStaleRound where the last sequence
// was another than expected, kRefused for all else. A chunk that is there already counts as stored.
Result<uint64_t> parse_store_answer(std::span<const uint8_t> bytes);
// The answer to the other requests; kRefused.
Result<void> parse_answer(std::span<const uint8_t> bytes);

}  // namespace thinwire::transport
