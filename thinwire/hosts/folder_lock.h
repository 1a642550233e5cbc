// A lock that one process holds at most until it ends, however it ends.
#pragma once

#include <string>

#include "thinwire/base/file.h"

namespace thinwire::hosts {

enum class Inherited : bool {
  kNo,
  kYes,  // child processes hold it, too: it is free once they have ended as well
};

class FolderLock {
 public:
  // Waits up to `patience_s` for another holder to end; then throws Error with `held`, which says
  // what it would mean. Throws Error, too, if the file cannot be created.
  FolderLock(const fs::path& file, double patience_s, const std::string& held,
             Inherited inherited = Inherited::kNo);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace thinwire::hosts
