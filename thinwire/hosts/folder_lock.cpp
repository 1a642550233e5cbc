#include "thinwire/hosts/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"

namespace thinwire::hosts {
namespace {

constexpr std::chrono::milliseconds kPollInterval(10);

}  // namespace

FolderLock::FolderLock(const fs::path& file, double timeout_s, const std::string& held,
                       Inherited inherited) {
  const int kept = inherited == Inherited::kYes ? 0 : O_CLOEXEC;
  file_ = ::open(file.c_str(), O_RDWR | O_CREAT | kept, 0600);
  if (file_ < 0)
    throw Error(fmt::format("cannot create {}: {}", file.string(), std::strerror(errno)));
  const Stopwatch watch;
  while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (watch.seconds() > timeout_s) {
      ::close(file_);
      throw Error(held);
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

FolderLock::~FolderLock() { ::close(file_); }

}  // namespace thinwire::hosts
