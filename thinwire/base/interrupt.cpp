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

void on_signal(int signal) {
  if (signal == SIGPIPE) std::signal(SIGPIPE, SIG_IGN);
  int none = 0;
  caught.first.compare_exchange_strong(none, signal);
  caught.any = true;
  const bool second = caught.count.fetch_add(1) > 0;
  if (!second_ends || signal == SIGPIPE) return;
  if (second) end_by_signal(signal);
  constexpr std::string_view kMessage = "\nstopping; a second interrupt stops at once\n";
  // Nothing can be done when the message cannot be shown.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
}

void exit_on_signal(int signal) { _exit(status_of_signal(signal)); }

bool is_ignored(int signal) {
  struct sigaction present {};
  sigaction(signal, nullptr, &present);
  return present.sa_handler == SIG_IGN;
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
  if (!is_ignored(SIGHUP)) sigaction(SIGHUP, &action, nullptr);
}

void ignore_closed_pipes() {
  pipes_ignored = true;
  std::signal(SIGPIPE, SIG_IGN);
}

// Unblocked, it takes effect at once, in its own handler as well.
void end_by_signal(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  raise(signal);
  _exit(status_of_signal(signal));
}

void obey_signals_if_first() {
  if (getpid() != 1) return;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(signal)) std::signal(signal, exit_on_signal);
  }
}

}  // namespace thinwire
