#include "thinwire/data/partial_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "thinwire/base/error.h"

namespace thinwire::data {
namespace {

fs::path with_suffix(const fs::path& path, const char* suffix) { return path.string() + suffix; }

int make_and_open(const fs::path& folder) {
  fs::create_directories(folder);
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    throw Error(fmt::format("cannot open {}: {}", folder.string(), std::strerror(errno)));
  return file;
}

}  // namespace

PartialFolder::PartialFolder(const fs::path& target)
    : target_(target), partial_(with_suffix(target, ".partial")), lock_(make_and_open(partial_)) {
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_);
    throw Error(fmt::format("another process is preparing {} right now", target_.string()));
  }
  for (const auto& entry : fs::directory_iterator(partial_)) fs::remove_all(entry.path());
}

PartialFolder::~PartialFolder() {
  std::error_code ignored;  // nothing can be done about it here; the next attempt removes it
  if (!published_) fs::remove_all(partial_, ignored);
  ::close(lock_);
}

void PartialFolder::publish() {
  const fs::path old = with_suffix(target_, ".old");
  const bool replaces = fs::exists(target_);
  if (replaces) {
    fs::remove_all(old);
    fs::rename(target_, old);
  }
  publish_directory(partial_, target_);
  published_ = true;
  if (replaces) fs::remove_all(old);
}

}  // namespace thinwire::data
