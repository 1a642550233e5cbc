#include "thinwire/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"

namespace thinwire {
namespace {

thread_local bool passing_files = false;  // whether this thread has a PassingFiles

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr std::string_view kPointerBegin = "version https://git-lfs.github.com/spec/";

[[noreturn]] void throw_system_error(std::string_view action, const fs::path& path) {
  throw Error(fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(errno)));
}

// A link to nothing gets its own message: the system says only that there is no such file.
void refuse_dangling(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_symlink(path, ignored) || fs::exists(path, ignored)) return;
  throw Error(fmt::format("cannot read {}: it is a link to {}, which does not exist", path.string(),
                          fs::read_symlink(path, ignored).string()));
}

// A rename would put the file in the place of the device or pipe.
void refuse_special(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::is_other(status)) return;
  throw Error(fmt::format("cannot write {}: it is a device or a pipe; give the name of a file",
                          path.string()));
}

void refuse_pointer(std::string_view begin, const fs::path& path) {
  if (!begin.starts_with(kPointerBegin)) return;
  throw Error(
      fmt::format("cannot read {}: it is a git-lfs pointer, not the file itself; `git lfs pull` in "
                  "its folder downloads that",
                  path.string()));
}

void check_status(const std::error_code& status, std::string_view action, const fs::path& path) {
  if (!status) return;
  throw Error(fmt::format("cannot {} {}: {}", action, path.string(), status.message()));
}

void make_directories(const fs::path& path) {
  std::error_code status;
  fs::create_directories(path, status);
  check_status(status, "create folder", path);
}

void rename_path(const fs::path& from, const fs::path& to) {
  std::error_code status;
  fs::rename(from, to, status);
  check_status(status, "write", to);
}

bool path_exists(const fs::path& path) {
  std::error_code status;
  const bool found = fs::exists(path, status);
  check_status(status, "look for", path);
  return found;
}

void write_all(int file, std::span<const uint8_t> bytes, off_t offset, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_system_error("write", path);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
}

}  // namespace

std::string read_text_file(const fs::path& path) {
  std::error_code ignored;  // opening the file reports it
  if (fs::is_directory(path, ignored)) {
    throw Error(fmt::format("cannot read {}: it is a folder", path.string()));
  }
  refuse_dangling(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw_system_error("open", path);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  refuse_pointer(text, path);
  return text;
}

bool file_exists(const fs::path& path) {
  refuse_dangling(path);
  return path_exists(path);
}

bool is_file(const fs::path& path) { return file_exists(path) && fs::is_regular_file(path); }

fs::path nearest_existing(const fs::path& path) {
  std::error_code unknown;
  fs::path nearest = fs::absolute(path, unknown);
  while (!fs::exists(nearest, unknown) && nearest.has_relative_path()) {
    nearest = nearest.parent_path();
  }
  return nearest;
}

std::optional<uint64_t> free_disk_bytes(const fs::path& path) {
  std::error_code unknown;
  const fs::space_info space = fs::space(nearest_existing(path), unknown);
  return unknown ? std::nullopt : std::optional<uint64_t>(space.available);
}

AtomicFile::AtomicFile(fs::path path)
    : path_(std::move(path)), partial_(path_.string() + ".partial") {
  refuse_special(path_);
  if (path_.has_parent_path()) make_directories(path_.parent_path());
  file_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) throw_system_error("create", partial_);
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) ::close(file_);
  if (!committed_) ::unlink(partial_.c_str());
}

void AtomicFile::write(std::span<const uint8_t> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  size_ += bytes.size();
  if (buffer_.size() >= kBufferBytes) flush();
}

void AtomicFile::flush() {
  write_all(file_, buffer_, static_cast<off_t>(size_ - buffer_.size()), partial_);
  buffer_.clear();
}

void AtomicFile::write_at(uint64_t offset, std::span<const uint8_t> bytes) {
  flush();
  write_all(file_, bytes, static_cast<off_t>(offset), partial_);
}

void AtomicFile::commit() {
  flush();
  if (!passing_files && ::fsync(file_) != 0) throw_system_error("sync", partial_);
  if (::close(std::exchange(file_, -1)) != 0) throw_system_error("close", partial_);
  rename_path(partial_, path_);
  committed_ = true;
  sync_directory(path_.has_parent_path() ? path_.parent_path() : ".");
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

PassingFiles::PassingFiles() { passing_files = true; }
PassingFiles::~PassingFiles() { passing_files = false; }

void sync_directory(const fs::path& path) {
  if (passing_files) return;
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) throw_system_error("open", path);
  const int status = ::fsync(folder);
  ::close(folder);
  if (status != 0) throw_system_error("sync", path);
}

void publish_directory(const fs::path& from, const fs::path& to) {
  if (path_exists(to)) {
    throw Error(
        fmt::format("cannot write {}: it exists already; choose another folder", to.string()));
  }
  sync_directory(from);
  rename_path(from, to);
  sync_directory(to.has_parent_path() ? to.parent_path() : ".");
}

// Delegating, so that the destructor runs if the last line throws.
MappedFile::MappedFile(const fs::path& path) : MappedFile() {
  refuse_dangling(path);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw_system_error("open", path);
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(file);
    throw Error(fmt::format("cannot read {}: it is not a regular file", path.string()));
  }
  size_ = static_cast<size_t>(status.st_size);
  void* data = size_ == 0 ? nullptr : ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  if (data == MAP_FAILED) throw_system_error("map", path);
  data_ = static_cast<const uint8_t*>(data);
  refuse_pointer({reinterpret_cast<const char*>(data_), size_}, path);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::release(std::span<const uint8_t> part) const {
  if (part.empty()) return;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  // The mapping begins with a page.
  const auto first = static_cast<size_t>(part.data() - data_);
  const size_t begin = (first + page - 1) / page * page;
  const size_t end = (first + part.size()) / page * page;
  if (begin >= end) return;
  // Only a hint, which cannot fail on a mapping that exists.
  ::madvise(const_cast<uint8_t*>(data_) + begin, end - begin, MADV_DONTNEED);
}

uint64_t resident_memory_bytes() {
  std::ifstream in("/proc/self/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  in >> total >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

uint64_t peak_memory_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

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

}  // namespace thinwire
