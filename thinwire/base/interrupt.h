// Signals that ask this process to end: SIGINT (Ctrl-C), SIGTERM, SIGHUP (its terminal was closed)
// and SIGPIPE (the reader of its output has gone). Work that can shut down cleanly catches them;
// everything else is killed by them at once, as any program is.
#pragma once

#include <atomic>
#include <string>

#include "thinwire/base/error.h"

namespace thinwire {

// Thrown once work has been shut down cleanly because of a signal. The process should now end by
// that signal; a rank of an MPI job, of which a launcher would say that it crashed, with its
// status.
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& what, bool is_rank = false)
      : Error(what), is_rank_(is_rank) {}
  bool is_rank() const { return is_rank_; }

 private:
  bool is_rank_;
};

struct Interrupts {
  std::atomic<bool> any = false;
  std::atomic<int> count = 0;
  std::atomic<int> first = 0;  // the number of the first signal
};

// The signals caught so far.
const Interrupts& interrupts();

enum class SecondSignal {
  kEnds,    // it ends the process at once, as the message about the first signal says
  kCounts,  // it is only counted
};

// Catches the four signals from here on, SIGPIPE unless ignore_closed_pipes() was called. SIGHUP
// stays ignored if it already was (nohup). A closed pipe counts once, however often it is written
// to.
void catch_interrupts(SecondSignal second = SecondSignal::kEnds);

// From here on, writing to a pipe or connection that the other side has closed is an error of that
// write and never a signal, even if catch_interrupts is called afterwards. For processes with
// network connections, any of which the other side may close at any time.
void ignore_closed_pipes();

// The status that shells show for a process that the signal has ended: 130 for SIGINT, 143 for
// SIGTERM.
constexpr int status_of_signal(int signal) { return 128 + signal; }

// Ends the process by a signal, so that its parent (a loop in a shell, for example) notices. The
// first process of a container, which no signal of its own ends, exits with status_of_signal.
[[noreturn]] void end_by_signal(int signal);

// The first process of a container ignores every signal that it does not catch. This makes SIGINT,
// SIGTERM and SIGHUP end it as they end any other process, until they are caught.
void obey_signals_if_first();

}  // namespace thinwire
