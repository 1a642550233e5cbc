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
    const Lock lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void PartWriter::add(int from, Bytes part) {
  const Lock lock(mutex_);
  ++added_;
  if (over_) return;
  parts_.emplace_back(from, std::move(part));
  changed_.notify_all();
}

uint64_t PartWriter::added() const {
  const Lock lock(mutex_);
  return added_;
}

void PartWriter::wait_until_taken(uint64_t count) {
  const Lock lock(mutex_);
  while (!over_ && taken_ < count) changed_.wait(mutex_);
}

void PartWriter::run() {
  const Lock lock(mutex_);
  while (true) {
    while (!over_ && parts_.empty()) changed_.wait(mutex_);
    if (over_) return;
    const auto [from, part] = std::move(parts_.front());
    parts_.pop_front();
    bool failed = false;
    {
      const Unlock meanwhile(mutex_);
      try {
        take_(from, part);
      } catch (const std::exception& error) {
        failed = true;
        failed_(plain_message(error));
      }
    }
    ++taken_;
    over_ = over_ || failed;
    changed_.notify_all();
  }
}

}  // namespace thinwire::launch
