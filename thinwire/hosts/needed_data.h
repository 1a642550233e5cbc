// A member's data in a run of which it receives rows as it needs them (data.fetch = "needed"): a
// folder with the headers of the run's shards, and what fetches the rest. docs/hosts.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/fetched_shards.h"
#include "thinwire/hosts/member_connection.h"
#include "thinwire/hosts/run_data.h"
#include "thinwire/hosts/run_description.h"

namespace thinwire::hosts {

struct NeededData {
  fs::path folder;    // for vocabulary, record and headers
  PublicKey founder;  // the coordinator that is asked for rows
  uint64_t cache_bytes = 0;
  const std::atomic<bool>* stop = nullptr;  // set from outside: wait no longer; may be null
};

// Makes the folder one with what is received before the first row, and returns what fetches rows
// into memory; `connection` must outlive it. `reception`: receives the vocabulary. Throws Error if
// the coordinator does not give them, or gives others than it describes.
std::unique_ptr<FetchedShards> fetch_as_needed(MemberConnection& connection, const NeededData& data,
                                               const RunDescription& description,
                                               const Reception& reception,
                                               const events::MessageSink& message);

}  // namespace thinwire::hosts
