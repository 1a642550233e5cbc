#include "thinwire/cli/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "thinwire/base/error.h"

namespace thinwire::cli {
namespace {

[[noreturn]] void fail(int error) {
  if (error == EPIPE) {  // SIGPIPE was ignored; else it would already have ended the process
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  throw Error(fmt::format("cannot write to standard output: {}",
                          error == 0 ? "only part of it was accepted" : std::strerror(error)));
}

void flush() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (!flushed || std::ferror(stdout) != 0) fail(flushed ? 0 : errno);
}

}  // namespace

int with_checked_output(const std::function<int()>& command) {
  try {
    const int status = command();
    flush();
    return status;
  } catch (const std::system_error& error) {  // as fmt::print throws it
    if (std::ferror(stdout) != 0) fail(error.code().value());
    throw;
  }
}

void write_output(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail(errno);
  flush();
}

}  // namespace thinwire::cli
