// Lines of text, and descriptors of files beside them, between two processes of a machine.
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

}  // namespace thinwire
