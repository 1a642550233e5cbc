// Courier::put and Courier::get for couriers whose transfers belong to a thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/transport/courier/blob_transfers.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/task_thread.h"

namespace thinwire::transport {

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
inline void post_get(TaskThread& thread, BlobTransfers& transfers, const BlobId& id,
                     std::vector<std::string> holders, Priority priority, Courier::Got got) {
  for (const std::string& holder : holders) check_courier_name("a holder", holder);
  thread.post([&transfers, id, holders = std::move(holders), priority, got = std::move(got)] {
    transfers.get(monotonic_seconds(), id, holders, priority, got);
  });
}

}  // namespace thinwire::transport
