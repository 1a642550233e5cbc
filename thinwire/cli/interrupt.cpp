#include "thinwire/cli/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

namespace thinwire::cli {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

void on_signal(int signal) {
  if (interrupted.exchange(true)) _exit(128 + signal);
  constexpr std::string_view kMessage = "\nending; a second interrupt ends at once\n";
  // Nothing can be done when the message cannot be shown.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
}

}  // namespace

const std::atomic<bool>& catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return interrupted;
}

}  // namespace thinwire::cli
