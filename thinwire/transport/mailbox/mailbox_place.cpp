#include "thinwire/transport/mailbox/mailbox_place.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "thinwire/base/digest.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::transport {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

FailureKind kind_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case EISDIR:
      return FailureKind::kLostPeer;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EACCES:
    case EPERM:
    case EROFS:
      return FailureKind::kRefused;
    default:
      return FailureKind::kDeadline;
  }
}

tl::unexpected<Failure> system_failure(std::string_view action, const std::string& name) {
  const int error = errno;
  return fail(kind_of(error), fmt::format("cannot {} {}: {}", action, name, std::strerror(error)));
}

// Closes a file at the end of a scope.
class FileHandle {
 public:
  explicit FileHandle(int handle) : handle_(handle) {}
  ~FileHandle() {
    if (handle_ >= 0) ::close(handle_);
  }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  operator int() const { return handle_; }  // NOLINT(google-explicit-constructor)
  bool close() { return ::close(std::exchange(handle_, -1)) == 0; }

 private:
  int handle_;
};

bool write_all(int file, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

// Some file systems cannot sync a folder; there is nothing more to do then.
bool sync_folder(int folder) { return ::fsync(folder) == 0 || errno == EINVAL; }

}  // namespace

Result<SharedFolder> SharedFolder::open(const fs::path& path) {
  const int handle = ::open(path.c_str(), kFolderFlags);
  if (handle < 0) return system_failure("open folder", path.string());
  return SharedFolder(handle);
}

SharedFolder::~SharedFolder() {
  if (handle_ >= 0) ::close(handle_);
}

SharedFolder::SharedFolder(SharedFolder&& other) noexcept
    : handle_(std::exchange(other.handle_, -1)) {}

SharedFolder& SharedFolder::operator=(SharedFolder&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Result<SharedFolder> SharedFolder::folder(const std::string& name) const {
  const int handle = ::openat(handle_, name.c_str(), kFolderFlags | O_NOFOLLOW);
  if (handle < 0) return system_failure("open folder", name);
  return SharedFolder(handle);
}

Result<SharedFolder> SharedFolder::make_folder(const std::string& name) const {
  if (::mkdirat(handle_, name.c_str(), 0777) == 0) {
    if (!sync_folder(handle_)) return system_failure("sync the folder of", name);
  } else if (errno != EEXIST) {
    return system_failure("create folder", name);
  }
  return folder(name);
}

Result<std::vector<std::string>> SharedFolder::names() const {
  // A stream of its own: reading moves its position, and closing it closes its handle.
  const int handle = ::openat(handle_, ".", kFolderFlags);
  DIR* const opened = handle < 0 ? nullptr : ::fdopendir(handle);
  if (opened == nullptr) {
    if (handle >= 0) ::close(handle);
    return system_failure("list", "a folder");
  }
  const auto close = [](DIR* folder) { ::closedir(folder); };
  const std::unique_ptr<DIR, decltype(close)> listing(opened, close);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(listing.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
    errno = 0;
  }
  if (errno != 0) return system_failure("list", "a folder");
  std::ranges::sort(names);
  return names;
}

bool SharedFolder::has(const std::string& name) const {
  struct stat status = {};
  return ::fstatat(handle_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(status.st_mode);
}

Result<Bytes> SharedFolder::read(const std::string& name, size_t max_bytes) const {
  // Opening a pipe would otherwise wait for its other end.
  const FileHandle file(
      ::openat(handle_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file < 0) return system_failure("open", name);
  struct stat status = {};
  if (::fstat(file, &status) != 0) return system_failure("read", name);
  if (!S_ISREG(status.st_mode)) return fail(FailureKind::kLostPeer, name + " is not a file");
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size > max_bytes) {
    return fail(FailureKind::kCorruptPayload,
                fmt::format("{} has {} bytes, more than {}", name, size, max_bytes));
  }
  Bytes bytes(size);
  size_t read = 0;
  while (read < bytes.size()) {
    const ssize_t got = ::read(file, bytes.data() + read, bytes.size() - read);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure("read", name);
    if (got == 0) break;  // it has become shorter
    read += static_cast<size_t>(got);
  }
  bytes.resize(read);
  return bytes;
}

Result<void> SharedFolder::write(const std::string& name, std::span<const uint8_t> bytes) const {
  const std::string partial = name + kPartialSuffix;
  Result<void> written = write_new(partial, bytes);
  if (written && ::renameat(handle_, partial.c_str(), handle_, name.c_str()) != 0) {
    written = system_failure("write", name);
  }
  if (!written) {
    ::unlinkat(handle_, partial.c_str(), 0);
    return written;
  }
  if (!sync_folder(handle_)) return system_failure("sync the folder of", name);
  return {};
}

// O_EXCL: what others may have put there, a link perhaps, is not written to.
Result<void> SharedFolder::write_new(const std::string& name,
                                     std::span<const uint8_t> bytes) const {
  if (auto removed = remove(name); !removed) return removed;
  FileHandle file(
      ::openat(handle_, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (file < 0) return system_failure("create", name);
  if (!write_all(file, bytes)) return system_failure("write", name);
  if (::fsync(file) != 0) return system_failure("sync", name);
  if (!file.close()) return system_failure("close", name);
  return {};
}

Result<void> SharedFolder::remove(const std::string& name) const {
  if (::unlinkat(handle_, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  return system_failure("remove", name);
}

namespace {

constexpr std::string_view kMagic = "TWMB";
constexpr uint16_t kVersion = 1;
constexpr size_t kDigits = 20;        // of a number; enough for all of 64 bits
constexpr size_t kRecordDigits = 12;  // of a sequence

std::optional<uint64_t> parse_digits(std::string_view text, size_t digits) {
  if (text.size() != digits) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

constexpr int kDepth = 2;  // of files below a participant's folder

void remove_partial_files_in(const SharedFolder& folder, int depth) {
  const auto names = folder.names();
  if (!names) return;
  for (const std::string& name : *names) {
    if (name.ends_with(kPartialSuffix)) {
      (void)folder.remove(name);
      continue;
    }
    if (depth == 0) continue;
    if (const auto below = folder.folder(name)) remove_partial_files_in(*below, depth - 1);
  }
}

}  // namespace

MailboxPlace::MailboxPlace(fs::path folder, std::string run, std::string self)
    : folder_(std::move(folder)), run_(std::move(run)), self_(std::move(self)) {
  check_courier_name("a run", run_);
  check_courier_name("a participant", self_);
}

bool MailboxPlace::usable() const {
  std::error_code ignored;
  return fs::is_directory(folder_, ignored) && ::access(folder_.c_str(), R_OK | W_OK | X_OK) == 0;
}

std::vector<std::string> MailboxPlace::participants() const {
  const auto all = SharedFolder::open(folder_);
  if (!all) return {};
  const auto run = all->folder(run_);
  auto names = run ? run->names() : tl::unexpected(run.error());
  if (!names) return {};
  std::erase_if(*names, [](const std::string& name) { return !is_courier_name(name); });
  return std::move(*names);
}

Result<SharedFolder> MailboxPlace::of(const std::string& participant,
                                      const std::vector<std::string>& below) const {
  Result<SharedFolder> at = SharedFolder::open(folder_);
  if (at) at = at->folder(run_);
  if (at) at = at->folder(participant);
  for (const std::string& name : below) {
    if (at) at = at->folder(name);
  }
  return at;
}

Result<SharedFolder> MailboxPlace::own(const std::vector<std::string>& below) const {
  Result<SharedFolder> at = SharedFolder::open(folder_);
  if (at) at = at->make_folder(run_);
  if (at) at = at->make_folder(self_);
  for (const std::string& name : below) {
    if (at) at = at->make_folder(name);
  }
  return at;
}

void MailboxPlace::remove_partial_files() const {
  if (const auto own = of(self_, {})) remove_partial_files_in(*own, kDepth);
}

void MailboxPlace::remove_own() const {
  std::error_code ignored;  // what is left does no harm
  fs::remove_all(folder_ / run_ / self_, ignored);
}

std::string print_numbered(const NumberedName& name) {
  return fmt::format("{:0{}}-{}", name.number, kDigits, name.text);
}

std::optional<NumberedName> parse_numbered(std::string_view name) {
  if (name.size() <= kDigits || name[kDigits] != '-') return std::nullopt;
  const auto number = parse_digits(name.substr(0, kDigits), kDigits);
  const std::string_view text = name.substr(kDigits + 1);
  if (!number || !is_courier_name(text)) return std::nullopt;
  return NumberedName{*number, std::string(text)};
}

std::string record_name(uint64_t sequence) {
  return fmt::format("{:0{}}", sequence, kRecordDigits);
}

std::optional<uint64_t> parse_record_name(std::string_view name) {
  const auto sequence = parse_digits(name, kRecordDigits);
  return sequence && *sequence > 0 ? sequence : std::nullopt;
}

Bytes seal(std::span<const uint8_t> content) {
  Bytes file;
  ByteWriter writer(file);
  writer.put_bytes(as_bytes(kMagic));
  writer.put(kVersion);
  writer.put_bytes(sha256(content).bytes);
  writer.put_bytes(content);
  return file;
}

std::optional<Bytes> unseal(std::span<const uint8_t> file) {
  ByteReader reader(file);
  const auto magic = reader.get_bytes(kMagic.size());
  const auto version = reader.get<uint16_t>();
  const auto hash = reader.get_bytes(sizeof(Sha256));
  const auto content = reader.get_bytes(reader.remaining());
  if (!reader.at_end() || !std::ranges::equal(magic, as_bytes(kMagic)) || version != kVersion) {
    return std::nullopt;
  }
  if (!std::ranges::equal(hash, sha256(content).bytes)) return std::nullopt;
  return Bytes(content.begin(), content.end());
}

}  // namespace thinwire::transport
