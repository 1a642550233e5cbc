#include "thinwire/base/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string_view>

namespace thinwire {
namespace {

Interrupts caught;
std::atomic<bool> second_ends = true;
std::atomic<bool> pipes_ignored = false;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "set from a signal handler");

// Where the signal is blocked, as in its own handler, it takes effect afterwards.
void end_by_signal(int signal) {
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void on_signal(int signal) {
  if (signal == SIGPIPE) std::signal(SIGPIPE, SIG_IGN);
  int none = 0;
  caught.first.compare_exchange_strong(none, signal);
  caught.any = true;
  const bool second = caught.count.fetch_add(1) > 0;
  if (!second_ends || signal == SIGPIPE) return;
  if (second) return end_by_signal(signal);
  constexpr std::string_view kMessage = "\nstopping; a second interrupt stops at once\n";
  // Nothing can be done when the message cannot be shown.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
}

}  // namespace

const Interrupts& interrupts() { return caught; }

void catch_interrupts(SecondSignal second) {
  second_ends = second == SecondSignal::kEnds;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
  if (!pipes_ignored) sigaction(SIGPIPE, &action, nullptr);
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

void ignore_closed_pipes() {
  pipes_ignored = true;
  std::signal(SIGPIPE, SIG_IGN);
}

void reraise_caught_signal() {
  if (caught.first == 0) return;
  std::fflush(nullptr);
  end_by_signal(caught.first);
}

}  // namespace thinwire
