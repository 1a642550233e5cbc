// The state of the operations of a run's members: who offered what for which operation, who left,
// who ended the run, when an all_gather closes and what an all_reduce still lacks. Each object
// serves some of the members ("here"): all of them if they are threads of one process, only one if
// frames connect them.
//
// A pure state machine, driven by the calls of members here and by frames: it has no threads, no
// clock and no wire, and sends frames to notify members elsewhere. Not thread-safe; Hub adds
// threads, waiting and deadlines. Members are looked up by their ids in the run, which need not be
// consecutive.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "thinwire/transport/chunked_sum.h"
#include "thinwire/transport/frame.h"

namespace thinwire::transport {

class Rendezvous {
 public:
  // A frame from a member here to one elsewhere. Frames must arrive in the order of sending.
  using Send = std::function<void(const FrameHead& head, std::span<const uint8_t> body)>;

  // Both ascending; `here` is a subset of `members`.
  Rendezvous(std::vector<int> members, std::vector<int> here, Send send);

  // Operation::group of some of the members, ascending; the same everywhere. Must be called before
  // the group's operations are started here.
  uint64_t group(const std::vector<int>& members);
  const std::vector<int>& members(uint64_t group) const { return groups_.at(group); }
  bool present(int member) const { return present_.contains(member); }

  // `from`, below: the members of the group that contribute, ascending; empty: all of them. A
  // member here that is not among them follows the operation.

  // --- all_gather
  void offer(const Operation& operation, int member, Bytes payload,
             const std::vector<int>& from = {});
  // Whether a member here has offered or follows.
  bool offered(const Operation& operation) const;
  // Whether every contributor has offered or left, so that the list is final.
  bool closed(const Operation& operation) const;
  // The contributors that have done neither.
  std::vector<int> awaited(const Operation& operation) const;
  // The final list, ordered by member, once closed.
  std::vector<Delivery> committed(const Operation& operation) const;
  // A member here has taken the list, or gives it up. Returns true if no member here needs it any
  // longer.
  bool finish_gather(const Operation& operation, int member);

  // --- all_reduce
  // `values` must stay unchanged until the sum is settled and has no readers; of a member that
  // follows only their number counts.
  void contribute(const Operation& operation, int member, std::span<const float> values,
                  const WireCodec& codec, const std::vector<int>& from = {});
  // Null if nobody here has started it, or all have finished it.
  std::shared_ptr<ChunkedSum> sum(const Operation& operation) const;
  // As finish_gather.
  bool finish_sum(const Operation& operation, int member);
  // A member here withdraws from a sum that it started.
  void withdraw(const Operation& operation, int member);
  // The unfinished sums of a member here.
  std::vector<std::shared_ptr<ChunkedSum>> sums_of(int member) const;

  // Work on sums: a task, which any thread may run, and its result. The oldest sum of a group comes
  // first, because keys ascend with time. There are no tasks once the run is aborted.
  struct Work {
    Operation operation;
    std::shared_ptr<ChunkedSum> sum;
    SumTask task;
  };
  bool has_work() const;
  std::optional<Work> take_work();
  static std::optional<Work> take_work(const Operation& operation, std::shared_ptr<ChunkedSum> sum);
  void finish_work(const Work& work, const Result<void>& result);

  // --- the run
  // A member here leaves for good.
  void leave(int member);
  // Only the first reason is kept.
  void abort(const std::string& reason);
  const std::optional<Failure>& aborted() const { return aborted_; }

  // --- from elsewhere
  // Any frame except a note. kCorruptPayload for a repeated one.
  Result<void> deliver(Frame frame);

 private:
  struct Gather {
    std::vector<int> from;  // empty until a member here has offered or follows
    std::map<int, std::shared_ptr<const Bytes>> offers;  // by member
    std::set<int> finished;                              // members here
  };

  struct Reduce {
    std::shared_ptr<ChunkedSum> sum = std::make_shared<ChunkedSum>();
    std::set<int> finished;  // members here
  };

  Result<void> deliver_to_sum(Frame frame);
  std::vector<int> here_in(std::span<const int> group) const;
  bool all_finished(uint64_t group, const std::set<int>& finished) const;
  void fail_if_lost(const Operation& operation, ChunkedSum& sum) const;
  void member_left(int member);
  void send_to_group(FrameKind kind, const Operation& operation, int from,
                     std::span<const uint8_t> body);
  void send_to_all(FrameKind kind, int from, std::span<const uint8_t> body);
  void send_to(std::span<const int> members, const FrameHead& head, std::span<const uint8_t> body);

  const std::vector<int> members_;
  const std::vector<int> here_;
  const Send send_;
  std::map<uint64_t, std::vector<int>> groups_;
  std::set<int> present_;
  std::optional<Failure> aborted_;
  std::map<Operation, Gather> gathers_;
  std::map<Operation, Reduce> reduces_;
};

}  // namespace thinwire::transport
