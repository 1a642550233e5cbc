// One member's end of a run whose members are in different processes: says in frames (frame.h),
// which arrive whole and in order, what LocalHub does in memory. Whoever moves the frames
// (transport/mpi.h) has a thread that hands in what arrived and calls work(), which codes and sums
// behind compute.
//
// A reduce: each member codes its contributions and sends each owner its chunk; an owner sums what
// arrived in member order, codes the sum and sends it to all. So nobody reads a member's values
// after they have been coded.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
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

  int group(const std::vector<int>& members) override;
  void offer(int group, int member, const Key& key, Bytes payload) override;
  Result<std::vector<Delivery>> collect(int group, int member, const Key& key,
                                        double timeout_s) override;
  void contribute(int group, int member, const Key& key, std::span<const float> values,
                  const WireCodec& codec) override;
  Result<void> sum(int group, int member, const Key& key, std::span<float> out,
                   double timeout_s) override;
  void withdraw(int group, int member, const Key& key) override;
  void leave(int member) override;
  void abort(const std::string& reason) override;

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
  // Does a piece of the sums that can go on; false: there is none.
  bool work();

 private:
  using Lock = std::unique_lock<std::mutex>;

  struct Group {
    std::vector<int> members;
    uint64_t id;  // Operation::group
  };

  struct Exchange {
    std::map<int, std::shared_ptr<const Bytes>> arrived;  // by member
  };

  struct Reduce {
    // What arrived, by member: contributions to the own chunk, and the sums of all chunks.
    std::map<int, Bytes> contributions;
    std::map<int, Bytes> sums;
    std::optional<Failure> failure;
    // Known once this member has started it.
    const std::vector<int>* members = nullptr;
    std::span<const float> values;
    const WireCodec* codec = nullptr;
    bool coded = false;
    bool summed = false;
    bool done = false;
    bool busy = false;  // work() is at it
    std::vector<float> result;

    bool has_work() const;
    bool has_all(const std::map<int, Bytes>& arrived) const;
  };

  // Nothing when ready() in time.
  std::optional<Failure> wait(Lock& lock, double timeout_s, const std::function<bool()>& ready);
  static Failure left_the_run();
  // From the next one on, so that members who send at once do not all begin with the same receiver.
  static std::vector<int> others_of(const std::vector<int>& members, int member);
  Operation operation(int group, const Key& key) const;
  const std::vector<int>& members_of(int group) const;
  Result<void> take_in(Frame frame);
  Result<void> take_in_reduce(Frame frame);
  bool everyone_arrived(int group, const Exchange& exchange) const;
  bool lost(const Reduce& reduce) const;
  void send(int to, FrameKind kind, const Operation& operation, std::span<const uint8_t> body);
  void send_to_all(FrameKind kind, std::string_view body);
  // The steps of a reduce; called without the lock while `busy`.
  void code_contributions(const Operation& operation, Reduce& reduce);
  void sum_own_chunk(const Operation& operation, Reduce& reduce);
  void decode_sums(Reduce& reduce);
  void hand_out_notes();
  int place_in(const std::vector<int>& members) const;

  const int self_;
  const int members_;
  const Send send_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<const Group>> groups_;
  std::set<int> present_;
  std::map<Operation, Exchange> exchanges_;
  std::map<Operation, std::shared_ptr<Reduce>> reduces_;
  std::string abort_reason_;
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
