#include <vector>

#include "thinwire/serve/coordinator_host_impl.h"

namespace thinwire::serve {

void PayloadCopies::begin() {
  courier_.list(courier_.self(), [inbox = inbox_](Result<std::vector<transport::StoredBlob>> own) {
    inbox->add(OwnBlobs{std::move(own)});
  });
}

void PayloadCopies::take(const OwnBlobs& own) {
  if (!own.blobs) return begin();
  std::vector<Sha256> names;
  uint64_t chunks = 0;
  for (const transport::StoredBlob& blob : *own.blobs) {
    names.push_back(blob.name);
    chunks += blob.chunks;
  }
  // A list that long may not be whole; then copies are not dropped.
  if (chunks < transport::kMaxListedChunks) cleaner_.never_drop(names);
}

void PayloadCopies::keep(const UnkeptPayload& payload) {
  if (payload.bytes->empty()) return;
  const transport::BlobId copy = courier_.put(payload.bytes, transport::Priority::kCatchUp,
                                              [inbox = inbox_, payload](const Result<void>& done) {
                                                if (!done) inbox->add(payload);
                                              });
  cleaner_.offered(payload.round, courier_.self(), copy);
}

void PayloadCopies::take(const UnkeptPayload& payload, const membership::State& state) {
  if (payload.round >= state.oldest_countable()) keep(payload);
}

}  // namespace thinwire::serve
