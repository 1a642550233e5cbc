// A folder that appears complete or not at all.
#pragma once

#include "thinwire/base/file.h"

namespace thinwire::data {

// Builds <target>.partial and renames it to target. What an earlier, killed attempt left there is
// removed; an attempt still running (it holds a lock on the folder) is an Error.
class PartialFolder {
 public:
  explicit PartialFolder(const fs::path& target);
  ~PartialFolder();  // removes the folder unless it was published
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  const fs::path& path() const { return partial_; }
  // Replaces whatever was at target.
  void publish();

 private:
  fs::path target_;
  fs::path partial_;
  int lock_ = -1;
  bool published_ = false;
};

}  // namespace thinwire::data
