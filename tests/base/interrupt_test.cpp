#include "thinwire/base/interrupt.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace thinwire {
namespace {

// Writes to a pipe that nobody reads.
ssize_t write_in_vain() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) std::abort();
  close(ends[0]);
  return write(ends[1], "x", 1);
}

TEST(Interrupts, AClosedPipeIsOneUnlessTheyAreIgnored) {
  const auto caught = [] {
    catch_interrupts();
    write_in_vain();
    std::exit(interrupts().any && interrupts().first == SIGPIPE ? 0 : 1);
  };
  EXPECT_EXIT(caught(), testing::ExitedWithCode(0), "");
  const auto ignored = [] {
    ignore_closed_pipes();
    catch_interrupts();
    const bool failed = write_in_vain() == -1 && errno == EPIPE;
    std::exit(failed && !interrupts().any ? 0 : 1);
  };
  EXPECT_EXIT(ignored(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace thinwire
