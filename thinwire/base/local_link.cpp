#include "thinwire/base/local_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"

namespace thinwire {
namespace {

constexpr size_t kReadAtOnce = size_t{64} << 10;

// Bytes sent, or -1 with errno.
ssize_t send_some(int socket, std::string_view text, std::span<const int> files) {
  iovec data = {const_cast<char*>(text.data()), text.size()};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(LineSocket::kMostFiles * sizeof(int))> control = {};
  if (!files.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(header), files.data(), files.size_bytes());
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL);
}

}  // namespace

LineSocket::LineSocket(int file, std::string_view name) : file_(file) {
  const auto option = [file](int which) {
    int value = -1;
    socklen_t size = sizeof value;
    return getsockopt(file, SOL_SOCKET, which, &value, &size) == 0 ? value : -1;
  };
  if (option(SO_TYPE) != SOCK_STREAM || option(SO_DOMAIN) != AF_UNIX) {
    throw UsageError(fmt::format(
        "{} must be the number of an inherited, connected Unix stream socket, got {}", name, file));
  }
  fcntl(file, F_SETFD, FD_CLOEXEC);
}

LineSocket::~LineSocket() { close(file_); }

void LineSocket::send(std::string line, std::span<const int> files) {
  line += '\n';
  const Lock lock(sending_);
  for (std::string_view left = line; !left.empty();) {
    const ssize_t sent = send_some(file_, left, files);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return;  // receive() will tell
    if (sent < 0) throw Error(fmt::format("cannot write to the socket: {}", std::strerror(errno)));
    left.remove_prefix(static_cast<size_t>(sent));
    files = {};
  }
}

bool LineSocket::wait(int milliseconds) {
  if (has_line()) return true;
  pollfd waited = {.fd = file_, .events = POLLIN, .revents = 0};
  return poll(&waited, 1, milliseconds) > 0;
}

std::optional<std::string> LineSocket::receive() {
  std::array<char, kReadAtOnce> read;
  while (!has_line()) {
    const ssize_t count = recv(file_, read.data(), read.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    unread_.append(read.data(), static_cast<size_t>(count));
    if (unread_.size() > kLongestLine) throw Error("a line is longer than 64 MiB");
  }
  const size_t end = unread_.find('\n');
  std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return line;
}

void LineSocket::shut() { shutdown(file_, SHUT_RDWR); }

SharedMemory::SharedMemory(size_t bytes)
    : size_(bytes), file_(memfd_create("thinwire", MFD_CLOEXEC)) {
  void* mapped = MAP_FAILED;
  if (file_ >= 0 && ftruncate(file_, static_cast<off_t>(bytes)) == 0) {
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  }
  if (mapped == MAP_FAILED) {
    const int reason = errno;
    if (file_ >= 0) close(file_);
    throw Error(fmt::format("cannot make {} of shared memory: {}",
                            format_bytes(static_cast<double>(bytes)), std::strerror(reason)));
  }
  data_ = static_cast<std::byte*>(mapped);
  madvise(mapped, bytes, MADV_HUGEPAGE);  // as tensors' other memory; not everywhere possible
}

SharedMemory::~SharedMemory() {
  munmap(data_, size_);
  close(file_);
}

}  // namespace thinwire
