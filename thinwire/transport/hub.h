// A rendezvous for threads: it adds a lock, waits with deadlines, and forms sums during
// computation. Members are identified by their ids in the run, a group by what group() returns for
// it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
  using Lock = std::unique_lock<std::mutex>;

  // Both ascending; `here` is a subset of `members`.
  Hub(std::vector<int> members, std::vector<int> here, std::shared_ptr<Carrier> carrier);

  Carrier& carrier() { return *carrier_; }
  // Called with the lock held when there are tasks that nobody has taken.
  virtual void on_work() {}
  // Called without the lock by a member that has waited so long for others, which are named by
  // their ids; only if waits are told.
  virtual void on_long_wait(const std::vector<int>& /*others*/, double /*seconds*/) {}
  // From here on, on_long_wait is called once a wait has taken `first_s` and three times as long as
  // any before it, and again whenever it has taken twice as long.
  void tell_long_waits(double first_s);
  // Runs a task of the oldest sum that has one, without the lock meanwhile; false if there is none.
  bool work(Lock& lock, CodedSum& memory);

  std::mutex mutex_;
  std::condition_variable changed_;
  Rendezvous rendezvous_;

 private:
  struct Deadline;

  // Those that are waited for.
  using Awaited = std::function<std::vector<int>()>;
  std::optional<Failure> wait(Lock& lock, const Deadline& deadline,
                              const std::function<bool()>& ready, const Awaited& awaited);
  bool wait_telling(Lock& lock, const Deadline& deadline, const std::function<bool()>& over,
                    const Awaited& awaited);
  std::optional<Failure> wait_for_carrier(Lock& lock, const Deadline& deadline,
                                          Collective collective, const Operation& operation,
                                          int member);
  std::optional<Failure> form(Lock& lock, const Deadline& deadline, const Operation& operation,
                              const std::shared_ptr<ChunkedSum>& sum);
  void run(Lock& lock, std::optional<Rendezvous::Work> work, CodedSum& memory);
  void wait_for_readers(Lock& lock, const ChunkedSum& sum);
  void finish_gather(const Operation& operation, int member);
  void finish_sum(const Operation& operation, int member);
  // What a member waits for that nobody knows: after it left, the others may have finished it;
  // before, it is misuse.
  tl::unexpected<Failure> unknown_operation(int member, const char* name) const;

  const std::shared_ptr<Carrier> carrier_;
  double told_from_s_ = std::numeric_limits<double>::infinity();
  double longest_wait_s_ = 0;
};

// 0 .. count-1
std::vector<int> members_below(int count);

// A communicator of one of the run's members 0 .. members-1. It counts bytes and translates the
// ranks of groups; the hub does the rest.
std::unique_ptr<Communicator> make_hub_communicator(std::shared_ptr<Hub> hub, int members,
                                                    int self);

}  // namespace thinwire::transport
