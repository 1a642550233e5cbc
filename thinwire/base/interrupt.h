// Signals that ask this process to end: SIGINT (Ctrl-C), SIGTERM, SIGHUP (its terminal went away)
// and SIGPIPE (the reader of its output did). Work that can end in order catches them; everything
// else dies of them at once, as any program does.
#pragma once

#include <atomic>

#include "thinwire/base/error.h"

namespace thinwire {

// Work has ended in order because of a signal; the process, too, is to end by it.
class Interrupted : public Error {
 public:
  using Error::Error;
};

struct Interrupts {
  std::atomic<bool> any = false;
  std::atomic<int> count = 0;
  std::atomic<int> first = 0;  // the number of the first signal
};

// What was caught so far.
const Interrupts& interrupts();

enum class SecondSignal {
  kEnds,    // the process ends by it at once, and the first one's message says so
  kCounts,  // it is only counted
};

// Catches the four signals from here on. SIGHUP stays ignored where it was (nohup). A closed pipe
// counts once, however often it is written to.
void catch_interrupts(SecondSignal second = SecondSignal::kEnds);

// Ends the process by the first signal that was caught, so that whoever started it (a loop of a
// shell, say) sees that; returns where there was none.
void end_by_caught_signal();

}  // namespace thinwire
