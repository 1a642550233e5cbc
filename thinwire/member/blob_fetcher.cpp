#include "thinwire/member/blob_fetcher.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/mutex.h"

namespace thinwire::member {

struct BlobFetcher::Shared {
  struct Entry {
    std::shared_ptr<const Bytes> blob;  // null: not here
    bool in_progress = false;
    bool substituted = false;  // the substitute was asked last
    double failed_at = 0;      // 0: it may be requested at once
    int failures = 0;          // of requests
    bool lost = false;         // nobody had it
  };

  // Whom to ask now.
  bool turns_to_substitute(const Entry& entry, const std::vector<std::string>& holders) const
      REQUIRES(mutex) {
    if (entry.failures > 0) return !entry.substituted;
    return std::ranges::any_of(
        holders, [&](const auto& one) REQUIRES(mutex) { return silent.contains(one); });
  }
  // Where there are several holders, the courier does not say who did not answer, and remembers it
  // itself.
  void note(const std::vector<std::string>& asked, const Result<Bytes>& answer, bool connected)
      REQUIRES(mutex) {
    if (asked.size() != 1) return;
    const bool late = !answer && answer.error().kind == FailureKind::kDeadline;
    if (!late) {
      silent.erase(asked.front());
    } else if (connected) {  // else it was not the holder's fault
      silent.insert(asked.front());
    }
  }

  Mutex mutex;
  Condition changed;
  std::map<transport::BlobId, Entry> entries GUARDED_BY(mutex);
  // Holders that did not answer when they were last asked.
  std::set<std::string> silent GUARDED_BY(mutex);
};

BlobFetcher::BlobFetcher(transport::Courier& courier, double retry_s, std::string substitute)
    : courier_(courier),
      retry_s_(retry_s),
      substitute_(std::move(substitute)),
      shared_(std::make_shared<Shared>()) {}

BlobFetcher::~BlobFetcher() = default;

void BlobFetcher::keep(const transport::BlobId& id, std::shared_ptr<const Bytes> blob) {
  const Lock lock(shared_->mutex);
  shared_->entries[id].blob = std::move(blob);
  shared_->changed.notify_all();
}

void BlobFetcher::start(const transport::BlobId& id, const std::vector<std::string>& holders,
                        transport::Priority priority) {
  std::vector<std::string> asked = holders;
  {
    const Lock lock(shared_->mutex);
    Shared::Entry& entry = shared_->entries[id];
    if (entry.blob != nullptr || entry.in_progress) return;
    if (entry.failed_at > 0 && monotonic_seconds() - entry.failed_at < retry_s_) return;
    entry.in_progress = true;
    entry.substituted = !substitute_.empty() && shared_->turns_to_substitute(entry, holders);
    if (entry.substituted) asked = {substitute_};
  }
  courier_.get(id, asked, priority,
               [&courier = courier_, shared = shared_, id, asked](Result<Bytes> bytes) {
                 const Lock lock(shared->mutex);
                 shared->note(asked, bytes, courier.connected());
                 const auto entry = shared->entries.find(id);
                 if (entry == shared->entries.end()) return;  // forgotten
                 entry->second.in_progress = false;
                 entry->second.lost = !bytes && bytes.error().kind == FailureKind::kLostPeer;
                 if (bytes) {
                   entry->second.blob = std::make_shared<const Bytes>(std::move(*bytes));
                 } else {
                   ++entry->second.failures;
                   // A time-out has already waited long enough.
                   const bool late = bytes.error().kind == FailureKind::kDeadline;
                   entry->second.failed_at = late ? 0 : monotonic_seconds();
                 }
                 shared->changed.notify_all();
               });
}

Result<std::shared_ptr<const Bytes>> BlobFetcher::wait(const transport::BlobId& id,
                                                       const std::vector<std::string>& holders,
                                                       transport::Priority priority,
                                                       const std::function<bool()>& gives_up) {
  const std::chrono::duration<double> expect_more(std::min(retry_s_, 0.25));
  while (true) {
    start(id, holders, priority);
    {
      const Lock lock(shared_->mutex);
      const auto is_here = [&]() REQUIRES(shared_->mutex) {
        return shared_->entries[id].blob != nullptr;
      };
      const bool here = shared_->changed.wait_for(shared_->mutex, expect_more, is_here);
      if (here) return shared_->entries[id].blob;
    }
    if (gives_up()) return fail(FailureKind::kAborted, "the blob is no longer needed");
  }
}

bool BlobFetcher::lacks(const transport::BlobId& id) const {
  const Lock lock(shared_->mutex);
  const auto entry = shared_->entries.find(id);
  return entry != shared_->entries.end() && entry->second.lost;
}

std::vector<transport::BlobId> BlobFetcher::lacking() const {
  const Lock lock(shared_->mutex);
  std::vector<transport::BlobId> lacking;
  for (const auto& [id, entry] : shared_->entries) {
    if (entry.lost) lacking.push_back(id);
  }
  return lacking;
}

bool BlobFetcher::failed(const transport::BlobId& id) const {
  const Lock lock(shared_->mutex);
  const auto entry = shared_->entries.find(id);
  return entry != shared_->entries.end() && entry->second.failures > 0;
}

void BlobFetcher::heard(const std::string& holder) {
  const Lock lock(shared_->mutex);
  shared_->silent.erase(holder);
}

void BlobFetcher::forget(const transport::BlobId& id) {
  const Lock lock(shared_->mutex);
  shared_->entries.erase(id);
}

}  // namespace thinwire::member
