// A lock that at most one process holds, and that is released when the process ends in any way.
#pragma once

#include <string>

#include "thinwire/base/file.h"

namespace thinwire::hosts {

enum class Inherited : bool {
  kNo,
  kYes,  // child processes hold it, too: it is released once they have also ended
};

class FolderLock {
 public:
  // Waits up to `timeout_s` for another holder to release it; then throws Error with the message
  // `held`. Also throws Error if the file cannot be created.
  FolderLock(const fs::path& file, double timeout_s, const std::string& held,
             Inherited inherited = Inherited::kNo);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace thinwire::hosts
