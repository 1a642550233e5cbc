// Files that nobody reads after this process has ended, and which therefore need not be synced.
#pragma once

namespace thinwire {

// While one exists, what its thread writes (base/file.h) is not synced. A thread has one at a time.
class PassingFiles {
 public:
  PassingFiles();
  ~PassingFiles();
  PassingFiles(const PassingFiles&) = delete;
  PassingFiles& operator=(const PassingFiles&) = delete;
};

}  // namespace thinwire
