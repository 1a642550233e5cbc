// One member's end of a run whose members are in different processes: a hub whose carrier are
// frames (frame.h), which arrive whole and in order, and notes beside the members' operations.
// Whoever moves the frames (transport/mpi.h) has a thread that hands in what arrived and calls
// work(), which codes and sums behind compute.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "thinwire/transport/frame.h"
#include "thinwire/transport/hub.h"

namespace thinwire::transport {

class FrameHub final : public Hub {
 public:
  // Frames from one member to another arrive in the order of sending. May be called by any thread,
  // with locks held, so it only queues.
  using Send = std::function<void(int to, Bytes frame)>;
  // Bytes beside the members' operations, see note().
  using TakeNote = std::function<void(int from, Bytes note)>;

  FrameHub(int self, int members, Send send);

  // Bytes for another member's take_notes, in order with everything else that is sent to it.
  void note(int to, std::span<const uint8_t> bytes);
  // Calls `take`, one note at a time, with what already arrived and what will; never with locks
  // held. To be called once. The thread that moves the frames calls it, so it is to be quick.
  void take_notes(TakeNote take);
  // Waits until ready(), which is looked at whenever something arrived or wake() was called, and
  // takes no locks. kAborted.
  Result<void> wait_until(const std::function<bool()>& ready);
  void wake();

  int self() const { return self_; }
  int members() const { return members_; }
  // For the thread that moves the frames. Takes a frame to this member in; kCorruptPayload for one
  // that says what was said before.
  Result<void> deliver(Frame frame);
  // For the same thread: does a piece of the sums that can go on; false: there is none.
  bool work();

 private:
  void hand_out_notes();

  const int self_;
  const int members_;
  CodedSum memory_;  // of work()
  TakeNote take_note_;
  std::deque<std::pair<int, Bytes>> notes_;  // arrived, not handed out
  std::mutex note_mutex_;                    // held while notes are handed out
};

// Takes in a frame from a process whose members are [first_sender, end_sender). `hubs` are those of
// this process, of consecutive members. A frame that is damaged or cannot be theirs ends the run:
// everybody fails with kAborted and a reason that says so.
void deliver_frame(std::span<const std::shared_ptr<FrameHub>> hubs, int first_sender,
                   int end_sender, Bytes bytes);

}  // namespace thinwire::transport
