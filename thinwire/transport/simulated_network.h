// A network in virtual time: how long a run would have waited if each member had its own link.
// Members have clocks; computing advances a member's clock, and waiting for an operation advances
// it to when the operation would have ended. Times depend only on what members start, in which
// order and at which virtual time, not on real timing, so they are the same in every run.
//
// The model. Operations use each link in the order in which the member starts them: an earlier one
// goes first, and later ones take the time that it leaves, as while it waits for a delay
// (links/links.h). Both directions are used at once, a receiver takes bytes while they are
// still being sent, and a message from i to j is delayed by the mean of both members' delays.
//   all_gather  A member's payload goes up once, to a relay; the others' come down in the order in
//               which they set out.
//   all_reduce  Two such round trips: contributions to the owners of chunks, then the owners' sums
//               to all. Who follows an operation sends nothing and receives what the others do.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "thinwire/base/mutex.h"
#include "thinwire/links/links.h"
#include "thinwire/transport/carrier.h"

namespace thinwire::transport {

// The carrier of a hub that has all members; the hub notifies it of what they do and who leaves.
// Thread-safe. Members are identified by their ids in the run.
class SimulatedNetwork final : public Carrier {
 public:
  // By member, 0 .. size-1.
  explicit SimulatedNetwork(const std::vector<links::Member>& members);

  // Computation, in the member's steps; returns its seconds.
  double compute(int member, double steps = 1);
  // Seconds of computation in one of the member's steps.
  double step_seconds(int member) const;
  // Seconds since the start.
  double clock(int member) const;

  void started(const Rendezvous& rendezvous, const Start& start) override;
  // False while an earlier operation has not been started by all: until then its end is not known.
  bool arrived(Collective collective, const Operation& operation) const override;
  void taken(Collective collective, const Operation& operation, int member) override;
  void cancelled(const Rendezvous& rendezvous, Collective collective, const Operation& operation,
                 int member) override;
  void forgotten(const Rendezvous& rendezvous, Collective collective,
                 const Operation& operation) override;
  // Operations continue without the member.
  void left(const Rendezvous& rendezvous) override;

 private:
  struct Name {
    Collective collective;
    Operation operation;
    auto operator<=>(const Name&) const = default;
  };
  struct Transfer {
    Name name;
    std::map<int, double> started;  // by member, its clock
    std::map<int, uint64_t> payload_bytes;
    SumFormats formats;
    size_t values = 0;
    std::vector<int> from;  // who contributes; empty: the whole group
    bool ended = false;
    std::map<int, double> end;  // by member
  };
  using Pointer = std::shared_ptr<Transfer>;

  struct State {
    links::Line line;
    double step_s = 0;
    double clock = 0;
    std::deque<Pointer> queue;  // started, not ended
  };

  // No operation that has yet to end began before.
  double earliest() const REQUIRES(mutex_);
  void end_what_can(const Rendezvous& rendezvous) REQUIRES(mutex_);
  bool can_end(const Transfer& transfer, const Rendezvous& rendezvous) const REQUIRES(mutex_);
  void end_all_gather(Transfer& transfer) REQUIRES(mutex_);
  void end_all_reduce(Transfer& transfer, const std::vector<int>& members) REQUIRES(mutex_);
  // One round trip: by index in `members`, when each can begin, how much it sends in total, and how
  // much `to` gets from `from`. Returns when each has received everything; advances the times at
  // which the links are free.
  std::vector<double> run_round_trip(const std::vector<int>& members,
                                     const std::vector<double>& ready,
                                     const std::vector<uint64_t>& up_bytes,
                                     const std::function<uint64_t(size_t from, size_t to)>& bytes)
      REQUIRES(mutex_);
  State& state(int member) REQUIRES(mutex_) { return states_[static_cast<size_t>(member)]; }
  const State& state(int member) const REQUIRES(mutex_) {
    return states_[static_cast<size_t>(member)];
  }

  mutable Mutex mutex_;
  std::vector<State> states_ GUARDED_BY(mutex_);
  std::map<Name, Pointer> transfers_ GUARDED_BY(mutex_);
};

}  // namespace thinwire::transport
