// One member's end of a run whose members are in different processes: a hub that communicates with
// frames (frame.h), which arrive whole and in order, and with notes outside the members'
// operations. The code that moves the frames (transport/mpi.h) has a thread that delivers what
// arrived and calls work(), which encodes and sums during computation.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "thinwire/transport/frame.h"
#include "thinwire/transport/hub.h"

namespace thinwire::transport {

class FrameHub final : public Hub {
 public:
  // Frames from one member to another arrive in the order of sending. May be called by any thread,
  // with locks held, so it must only queue.
  using Send = std::function<void(int to, Bytes frame)>;
  // The members that one here has waited for, and for how long.
  using TellWait = std::function<void(const std::vector<int>& others, double seconds)>;
  // Bytes outside the members' operations, see note().
  using TakeNote = std::function<void(int from, Bytes note)>;

  FrameHub(int self, int members, Send send);

  // Bytes for another member's take_notes, in order with everything else that is sent to it.
  void note(int to, std::span<const uint8_t> bytes);
  // Calls `take`, one note at a time, for notes that have arrived and for later ones; never with
  // locks held. Must be called once. The thread that moves the frames calls `take`, so it must be
  // quick.
  void take_notes(TakeNote take);
  // Waits until ready() is true. It is checked whenever something has arrived or wake() was called,
  // and must take no locks. Fails with kAborted.
  Result<void> wait_until(const std::function<bool()>& ready);
  void wake();

  // Has `tell` called, never with locks held, when a wait has taken `first_s` and is unusually
  // long. To be called once, before the first wait.
  void tell_waits(TellWait tell, double first_s = 30);

  int self() const { return self_; }
  int members() const { return members_; }
  // For the thread that moves the frames. Processes a frame to this member; kCorruptPayload for a
  // repeated one.
  Result<void> deliver(Frame frame);
  // For the same thread: does one task of the sums; returns false if there is none.
  bool work();

 private:
  // One thread at a time, so that notes are delivered in the order of their arrival.
  void hand_out_notes() REQUIRES(handing_out_) EXCLUDES(mutex_);
  void on_long_wait(const std::vector<int>& others, double seconds) override {
    tell_wait_(others, seconds);
  }

  const int self_;
  const int members_;
  CodedSum memory_;  // of work()
  TellWait tell_wait_;
  std::deque<std::pair<int, Bytes>> notes_ GUARDED_BY(mutex_);  // arrived, not yet delivered
  Mutex handing_out_;
  TakeNote take_note_ GUARDED_BY(handing_out_);
};

// Processes a frame from a process whose members are [first_sender, end_sender). `hubs` are those
// of this process, of consecutive members. A frame that is damaged or cannot come from those
// members ends the run: all members fail with kAborted and that reason.
void deliver_frame(std::span<const std::shared_ptr<FrameHub>> hubs, int first_sender,
                   int end_sender, Bytes bytes);

}  // namespace thinwire::transport
