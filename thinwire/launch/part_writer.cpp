#include <exception>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/launch/ranks.h"

namespace thinwire::launch {

PartWriter::PartWriter(std::function<void(int, const Bytes&)> take,
                       std::function<void(const std::string&)> failed)
    : take_(std::move(take)), failed_(std::move(failed)), thread_([this] { run(); }) {}

PartWriter::~PartWriter() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void PartWriter::add(int from, Bytes part) {
  const std::lock_guard lock(mutex_);
  ++added_;
  if (over_) return;
  parts_.emplace_back(from, std::move(part));
  changed_.notify_all();
}

uint64_t PartWriter::added() const {
  const std::lock_guard lock(mutex_);
  return added_;
}

void PartWriter::wait_until_taken(uint64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return over_ || taken_ >= count; });
}

void PartWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return over_ || !parts_.empty(); });
    if (over_) return;
    const auto [from, part] = std::move(parts_.front());
    parts_.pop_front();
    lock.unlock();
    bool failed = false;
    try {
      take_(from, part);
    } catch (const std::exception& error) {
      failed = true;
      failed_(plain_message(error));
    }
    lock.lock();
    ++taken_;
    over_ = over_ || failed;
    changed_.notify_all();
  }
}

}  // namespace thinwire::launch
