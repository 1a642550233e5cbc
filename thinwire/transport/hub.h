// A rendezvous for threads: it adds a lock, waits with deadlines, and forms sums during
// computation. Members are identified by their ids in the run, a group by what group() returns for
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/mutex.h"
#include "thinwire/transport/carrier.h"
#include "thinwire/transport/communicator.h"
#include "thinwire/transport/rendezvous.h"

namespace thinwire::transport {

// Thread-safe. The functions are those of Communicator.
class Hub {
 public:
  virtual ~Hub() = default;
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  uint64_t group(const std::vector<int>& members);
  // `from`, below: ids in the run; empty: the whole group.
  void offer(uint64_t group, int member, const Key& key, Bytes payload,
             const Contributors& from = {});
  // Deliveries identify members by their ids in the run.
  Result<std::vector<Delivery>> collect(uint64_t group, int member, const Key& key,
                                        double timeout_s);
  void contribute(uint64_t group, int member, const Key& key, std::span<const float> values,
                  const WireCodec& codec, const Contributors& from = {});
  // Members that wait for a sum help to form it.
  Result<void> sum(uint64_t group, int member, const Key& key, std::span<float> out,
                   double timeout_s);
  void withdraw(uint64_t group, int member, const Key& key);
  void leave(int member);
  void abort(const std::string& reason);

 protected:
  // Both ascending; `here` is a subset of `members`.
  Hub(std::vector<int> members, std::vector<int> here, std::shared_ptr<Carrier> carrier);

  Carrier& carrier() { return *carrier_; }
  // Called when there are tasks that nobody has taken.
  virtual void on_work() REQUIRES(mutex_) {}
  // Called by a member that has waited so long for others, which are named by their ids; only if
  // waits are told.
  virtual void on_long_wait(const std::vector<int>& /*others*/, double /*seconds*/)
      EXCLUDES(mutex_) {}
  // From here on, on_long_wait is called once a wait has taken `first_s` and three times as long as
  // any before it, and again whenever it has taken twice as long.
  void tell_long_waits(double first_s);
  // Runs a task of the oldest sum that has one, without the lock meanwhile; false if there is none.
  bool work(CodedSum& memory) REQUIRES(mutex_);

  Mutex mutex_;
  Condition changed_;
  Rendezvous rendezvous_ GUARDED_BY(mutex_);

 private:
  struct Deadline;

  // The members that are waited for.
  using Awaited = std::function<std::vector<int>()>;
  // What waits and what forms sums lets go of the mutex meanwhile.
  std::optional<Failure> wait(const Deadline& deadline, const std::function<bool()>& ready,
                              const Awaited& awaited) REQUIRES(mutex_);
  // Whether it is over before the deadline.
  bool wait_telling(const Deadline& deadline, const std::function<bool()>& over,
                    const Awaited& awaited) REQUIRES(mutex_);
  std::optional<Failure> wait_for_carrier(const Deadline& deadline, Collective collective,
                                          const Operation& operation, int member) REQUIRES(mutex_);
  std::optional<Failure> form(const Deadline& deadline, const Operation& operation,
                              const std::shared_ptr<ChunkedSum>& sum) REQUIRES(mutex_);
  void run(std::optional<Rendezvous::Work> work, CodedSum& memory) REQUIRES(mutex_);
  void wait_for_readers(const ChunkedSum& sum) REQUIRES(mutex_);
  void finish_gather(const Operation& operation, int member) REQUIRES(mutex_);
  void finish_sum(const Operation& operation, int member) REQUIRES(mutex_);
  // What a member waits for that nobody knows: after it left, the others may have finished it;
  // before, it is misuse.
  tl::unexpected<Failure> unknown_operation(int member, const char* name) const REQUIRES(mutex_);

  const std::shared_ptr<Carrier> carrier_;
  double told_from_s_ GUARDED_BY(mutex_) = std::numeric_limits<double>::infinity();
  double longest_wait_s_ GUARDED_BY(mutex_) = 0;
};

// 0 .. count-1
std::vector<int> members_below(int count);

// A communicator of one of the run's members 0 .. members-1. It counts bytes and translates the
// ranks of groups; the hub does the rest.
std::unique_ptr<Communicator> make_hub_communicator(std::shared_ptr<Hub> hub, int members,
                                                    int self);

}  // namespace thinwire::transport
