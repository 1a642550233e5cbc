// What two processes of a machine share: lines of text, with descriptors of files beside them, and
// memory.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/mutex.h"

namespace thinwire {

// One end of a connected Unix stream socket. Any number of threads may send; one receives.
class LineSocket {
 public:
  static constexpr size_t kMostFiles = 2;  // beside a line
  static constexpr size_t kLongestLine = size_t{64} << 20;

  // Owns the descriptor, which children do not inherit. Throws UsageError if it is none of a stream
  // socket; `name` is what the user calls it.
  LineSocket(int file, std::string_view name);
  ~LineSocket();
  LineSocket(const LineSocket&) = delete;
  LineSocket& operator=(const LineSocket&) = delete;

  // Sends a line, without its end, and the descriptors with its first byte. A peer that has gone is
  // no failure: receive() tells.
  void send(std::string line, std::span<const int> files = {});
  // Whether receive() has something to return: waits at most so long for it.
  bool wait(int milliseconds);
  // The next line; nothing: the peer has closed its side. Waits. Throws Error for a line that is
  // longer than kLongestLine.
  std::optional<std::string> receive();
  // Ends both directions; a thread that waits in receive() returns.
  void shut();

 private:
  bool has_line() const { return unread_.find('\n') != std::string::npos; }

  const int file_;
  Mutex sending_;  // one line at a time
  std::string unread_;
};

// Memory that another process may map as well: it has a file descriptor, but no name.
// Zeroed, page-aligned, and freed once no process has it mapped or open. Used by any thread.
class SharedMemory {
 public:
  // At least one byte. Throws Error with the system's reason.
  explicit SharedMemory(size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> bytes() const { return {data_, size_}; }
  // For handing it to the other process; children do not inherit it.
  int file() const { return file_; }

 private:
  size_t size_;
  int file_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace thinwire
