#include <vector>

#include "thinwire/serve/coordinator_host_impl.h"

namespace thinwire::serve {

void PayloadCopies::begin() {
  courier_.list(courier_.self(), [inbox = inbox_](Result<std::vector<Sha256>> chunks) {
    inbox->add(OwnChunks{std::move(chunks)});
  });
}

void PayloadCopies::take(OwnChunks own) {
  if (!own.chunks) return begin();
  // A list that long may not be whole; then copies are not dropped.
  if (own.chunks->size() < transport::kMaxListedChunks) cleaner_.never_drop(*own.chunks);
}

void PayloadCopies::keep(const UnkeptPayload& payload) {
  if (payload.bytes->empty()) return;
  courier_.put(payload.bytes, transport::Priority::kCatchUp,
               [inbox = inbox_, payload](const Result<void>& done) {
                 if (!done) inbox->add(payload);
               });
  cleaner_.offered(payload.round, courier_.self(), *payload.bytes);
}

void PayloadCopies::take(const UnkeptPayload& payload, const membership::State& state) {
  if (payload.round >= state.oldest_countable()) keep(payload);
}

}  // namespace thinwire::serve
