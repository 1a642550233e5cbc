// Processes parts for the run folder on a separate thread, so that the thread that moves frames
// never waits for a disk.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "thinwire/base/bytes.h"

namespace thinwire::launch {

// Thread-safe.
class PartWriter {
 public:
  // take: called with each added part, one after another, in the order in which they were added.
  // failed: called once with the message of an exception from `take`; nothing is taken after it.
  PartWriter(std::function<void(int from, const Bytes& part)> take,
             std::function<void(const std::string& reason)> failed);
  // Finishes the part being taken and drops the rest.
  ~PartWriter();
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;

  void add(int from, Bytes part);
  // Number of parts added so far.
  uint64_t added() const;
  // Returns when the first `count` added parts have been taken, or when no more will be.
  void wait_until_taken(uint64_t count);

 private:
  void run();

  const std::function<void(int, const Bytes&)> take_;
  const std::function<void(const std::string&)> failed_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<int, Bytes>> parts_;
  uint64_t added_ = 0;
  uint64_t taken_ = 0;
  bool over_ = false;  // nothing more will be taken
  std::thread thread_;
};

}  // namespace thinwire::launch
