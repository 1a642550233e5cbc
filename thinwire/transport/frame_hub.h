// One member's end of a run whose members are in different processes: says in frames, byte strings
// that arrive whole and in order, what LocalHub does in memory. Whoever moves the frames
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
#include <string>
#include <utility>
#include <vector>

#include "thinwire/transport/hub.h"

namespace thinwire::transport {

class FrameHub final : public Hub {
 public:
  // Frames from one member to another arrive in the order of sending. May be called by any thread,
  // with locks held, so it only queues.
  using Send = std::function<void(int to, Bytes frame)>;
  // Bytes beside the members' operations, see note().
  using TakeNote = std::function<void(int from, std::span<const uint8_t> note)>;

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
  // held. To be called once.
  void take_notes(TakeNote take);
  // Waits until ready(), which is looked at whenever something arrived and takes no locks.
  // kAborted.
  Result<void> wait_until(const std::function<bool()>& ready);

  // For the thread that moves the frames.
  void deliver(int from, Bytes frame);
  // Does a piece of the sums that can go on; false: there is none.
  bool work();

 private:
  using Lock = std::unique_lock<std::mutex>;

  // A frame is its kind, then for operations group, run, epoch, round and fragment, then the rest.
  enum FrameKind : uint8_t {
    kPayload,
    kContribution,
    kSum,
    kRefusal,
    kWithdrawal,
    kLeave,
    kAbort,
    kNote
  };

  // Groups are known by a hash of their members, which is the same everywhere.
  struct Operation {
    uint64_t group;
    Key key;
    auto operator<=>(const Operation&) const = default;
  };

  struct Exchange {
    std::map<int, Delivery> arrived;
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
  };

  // Nothing when ready() in time.
  std::optional<Failure> wait(Lock& lock, double timeout_s, const std::function<bool()>& ready);
  static Failure left_the_run();
  // From the next one on, so that members who send at once do not all begin with the same receiver.
  static std::vector<int> others_of(const std::vector<int>& members, int member);
  Operation operation(int group, const Key& key) const;
  const std::vector<int>& members_of(int group) const;
  bool everyone_arrived(int group, const Exchange& exchange) const;
  bool lost(const Reduce& reduce) const;
  void send(int to, uint8_t kind, const Operation& operation, std::span<const uint8_t> body);
  void send_to_all(uint8_t kind, const std::string& body);
  // The steps of a reduce; called without the lock while `busy`.
  void code_contributions(const Operation& operation, Reduce& reduce);
  void sum_own_chunk(const Operation& operation, Reduce& reduce);
  void decode_sums(Reduce& reduce);
  void hand_out_notes();
  int place_in(const std::vector<int>& members) const;

  const int self_;
  const Send send_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<const std::vector<int>>> groups_;
  std::set<int> present_;
  std::map<Operation, Exchange> exchanges_;
  std::map<Operation, std::shared_ptr<Reduce>> reduces_;
  std::string abort_reason_;
  TakeNote take_note_;
  std::deque<std::pair<int, Bytes>> notes_;  // arrived, not handed out
  std::mutex note_mutex_;                    // held while notes are handed out
};

}  // namespace thinwire::transport
