// Signals that ask this process to end: SIGINT (Ctrl-C), SIGTERM, SIGHUP (its terminal was closed)
// and SIGPIPE (the reader of its output has gone). Work that can shut down cleanly catches them;
// everything else is killed by them at once, as any program is.
#pragma once

#include <atomic>

#include "thinwire/base/error.h"

namespace thinwire {

// Thrown once work has been shut down cleanly because of a signal. The process should now end by
// that signal.
class Interrupted : public Error {
 public:
  using Error::Error;
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

// Ends the process by the first signal that was caught, so that its parent (a loop in a shell, for
// example) notices; returns if there was none.
void reraise_caught_signal();

}  // namespace thinwire
