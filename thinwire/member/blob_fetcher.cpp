#include "thinwire/member/blob_fetcher.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "thinwire/base/clock.h"

namespace thinwire::member {

struct BlobFetcher::Shared {
  struct Entry {
    std::shared_ptr<const Bytes> blob;  // null: not here
    bool in_progress = false;
    double failed_at = 0;  // 0: it may be requested at once
    int failures = 0;      // of requests
    bool lost = false;     // nobody had it
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<transport::BlobId, Entry> entries;
};

BlobFetcher::BlobFetcher(transport::Courier& courier, double retry_s, std::string substitute)
    : courier_(courier),
      retry_s_(retry_s),
      substitute_(std::move(substitute)),
      shared_(std::make_shared<Shared>()) {}

BlobFetcher::~BlobFetcher() = default;

void BlobFetcher::keep(const transport::BlobId& id, std::shared_ptr<const Bytes> blob) {
  const std::lock_guard lock(shared_->mutex);
  shared_->entries[id].blob = std::move(blob);
  shared_->changed.notify_all();
}

void BlobFetcher::start(const transport::BlobId& id, const std::vector<std::string>& holders,
                        transport::Priority priority) {
  bool substituted = false;
  {
    const std::lock_guard lock(shared_->mutex);
    Shared::Entry& entry = shared_->entries[id];
    if (entry.blob != nullptr || entry.in_progress) return;
    if (entry.failed_at > 0 && monotonic_seconds() - entry.failed_at < retry_s_) return;
    entry.in_progress = true;
    substituted = entry.failures % 2 == 1 && !substitute_.empty();
  }
  const std::vector<std::string> asked = substituted ? std::vector{substitute_} : holders;
  courier_.get(id, asked, priority, [shared = shared_, id](Result<Bytes> bytes) {
    const std::lock_guard lock(shared->mutex);
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
    std::unique_lock lock(shared_->mutex);
    const auto is_here = [&] { return shared_->entries[id].blob != nullptr; };
    if (shared_->changed.wait_for(lock, expect_more, is_here)) return shared_->entries[id].blob;
    lock.unlock();
    if (gives_up()) return fail(FailureKind::kAborted, "the blob is no longer needed");
  }
}

bool BlobFetcher::lacks(const transport::BlobId& id) const {
  const std::lock_guard lock(shared_->mutex);
  const auto entry = shared_->entries.find(id);
  return entry != shared_->entries.end() && entry->second.lost;
}

std::vector<transport::BlobId> BlobFetcher::lacking() const {
  const std::lock_guard lock(shared_->mutex);
  std::vector<transport::BlobId> lacking;
  for (const auto& [id, entry] : shared_->entries) {
    if (entry.lost) lacking.push_back(id);
  }
  return lacking;
}

void BlobFetcher::forget(const transport::BlobId& id) {
  const std::lock_guard lock(shared_->mutex);
  shared_->entries.erase(id);
}

}  // namespace thinwire::member
