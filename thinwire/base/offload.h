// Arrays that are kept in files instead of memory: an Offload maps them, reads ahead what is used
// next, and writes back what has not been used for longest, so that only a window of them is in
// memory at a time. Which bytes are where never changes a result: reading or writing any of them is
// always possible, and only slower where it was not foreseen.
//
// The order of use is learnt: a training step touches its arrays in the same order as the one
// before it. The files have no names; their space is free once the process has ended, however it
// ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"

namespace thinwire {

class Offload {
 public:
  // folder: where the files are, which must exist. window: bytes of the touched arrays that may
  // stay in memory, besides those that are in use.
  Offload(fs::path folder, size_t window);
  ~Offload();
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  // One more in the same folder, with a window of its own, e.g. for another worker.
  std::shared_ptr<Offload> another() const { return std::make_shared<Offload>(folder_, window_); }

  // `bytes` zeroed bytes at the beginning of a page, all on disk already, to be freed with
  // deallocate(). Throws Error if the folder cannot be written or has not enough space.
  void* allocate(size_t bytes);
  void deallocate(void* data);

  // Says that these bytes are used from now on, and written if `writes`. Throws Error if they
  // cannot be read back.
  void touch(const void* data, size_t bytes, bool writes);
  // Says that these bytes, of which touch() may never have heard, are not needed in memory now.
  void release(const void* data, size_t bytes);

  // How many bytes of the arrays that were touched are in memory; and how often an array had been
  // read ahead when it was touched, and how often not.
  struct Traffic {
    size_t resident = 0;
    int64_t foreseen = 0;
    int64_t missed = 0;
  };
  Traffic traffic() const;

 private:
  struct Mapping {
    size_t bytes;
    int file;
  };
  using Address = uint8_t*;
  using Range = std::pair<Address, Address>;  // whole pages
  struct Part {
    Range range;
    bool resident = false;
    bool dirty = false;
    int64_t last_use = 0;
  };
  // What was touched after two others.
  struct Next {
    size_t part;
    bool writes;
  };
  static constexpr size_t kNone = ~size_t{0};

  static size_t size(const Range& range) { return static_cast<size_t>(range.second - range.first); }
  size_t part_of(const Range& range) REQUIRES(mutex_);
  void learn(size_t part, bool writes) REQUIRES(mutex_);
  bool make_room(size_t bytes, size_t kept) REQUIRES(mutex_);
  void drop(Part& part) REQUIRES(mutex_);
  void make_resident(Part& part, bool writes) REQUIRES(mutex_);
  // The part that is probably touched `ahead` touches from now.
  const Next* foresee(int ahead) const REQUIRES(mutex_);
  void read_ahead() REQUIRES(mutex_);
  void run();

  const fs::path folder_;
  const size_t window_;
  mutable Mutex mutex_;
  Condition changed_;
  std::map<Address, Mapping> mappings_ GUARDED_BY(mutex_);
  std::vector<Part> parts_ GUARDED_BY(mutex_);
  std::map<Range, size_t> index_ GUARDED_BY(mutex_);
  std::map<std::pair<size_t, size_t>, Next> next_ GUARDED_BY(mutex_);
  size_t last_ GUARDED_BY(mutex_) = kNone;         // touched
  size_t before_last_ GUARDED_BY(mutex_) = kNone;  // likewise
  std::vector<Range> unwritten_ GUARDED_BY(mutex_);
  int64_t clock_ GUARDED_BY(mutex_) = 0;
  Traffic traffic_ GUARDED_BY(mutex_);
  bool moved_ GUARDED_BY(mutex_) = false;
  bool ends_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// The same for the Offload that has these bytes, if any does: code that walks over arrays need not
// know where they are. Nothing is done for ordinary memory.
void release_offloaded(const void* data, size_t bytes);
bool is_offloaded(const void* data);

}  // namespace thinwire
