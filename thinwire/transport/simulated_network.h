// A network in virtual time: what a run would have waited had each member had its own link. Members
// have clocks; computing moves a member's clock, and waiting for an operation moves it to when the
// operation would have ended. Times depend on what members start, in which order and at which
// clock, and on nothing that really happens, so they are the same in every run.
//
// The model. Operations queue on each link in the order in which the member starts them, and one
// has a link to itself until it ends there. Both directions carry at once, a receiver takes bytes
// while they are sent, and a message from i to j is delayed by the mean of both members' delays.
//   exchange  A member's payload goes up once, to a relay; the others' come down in the order in
//             which they set out.
//   reduce    Two such turns: contributions to the owners of chunks, then the owners' sums to all.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/wire.h"
#include "thinwire/links/round_trip.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::transport {

// Thread-safe. Members are named by their ids in the run.
class SimulatedNetwork {
 public:
  explicit SimulatedNetwork(const std::vector<links::Member>& members);

  // Computation, in the member's steps; returns its seconds.
  double compute(int member, double steps = 1);
  // Seconds since the start.
  double clock(int member) const;

  // One operation of these members.
  struct Name {
    bool reduce = false;
    std::vector<int> members;
    Key key;
    auto operator<=>(const Name&) const = default;
  };
  void start_all_gather(int member, const Name& name, uint64_t payload_bytes);
  void start_all_reduce(int member, const Name& name, WireType type, size_t values);
  // To be called once all members have started it; moves the clock. kDeadline when an operation
  // before it is still not started by all after `timeout_s` of real time.
  Result<void> finish(int member, const Name& name, double timeout_s);
  void cancel(int member, const Name& name);
  // Operations go on without the member.
  void leave(int member);
  // All present and later finishes fail with kAborted and this reason.
  void abort(const std::string& reason);

 private:
  struct Operation {
    Name name;
    std::map<int, double> started;  // by member, its clock
    std::map<int, uint64_t> payload_bytes;
    WireType type = WireType::kF32;
    size_t values = 0;
    bool ended = false;
    std::map<int, double> end;  // by member
    size_t open = 0;            // members that have neither finished nor cancelled it
  };
  using Pointer = std::shared_ptr<Operation>;

  struct State {
    links::Line line;
    double step_s = 0;
    double clock = 0;
    bool present = true;
    std::deque<Pointer> queue;  // started, not ended
  };

  Pointer start(int member, const Name& name);
  bool everyone_started(const Operation& operation) const;
  void end_what_can();
  void end_exchange(Operation& operation);
  void end_reduce(Operation& operation);
  // One turn: by place in `members`, when each can begin, what it sends in all, and what `to` gets
  // of `from`. Returns when each has got everything; moves the links' free times.
  std::vector<double> run_round_trip(const std::vector<int>& members,
                                     const std::vector<double>& ready,
                                     const std::vector<uint64_t>& up_bytes,
                                     const std::function<uint64_t(size_t from, size_t to)>& bytes);
  void close(int member, const Name& name);
  State& state(int member) { return states_[static_cast<size_t>(member)]; }
  const State& state(int member) const { return states_[static_cast<size_t>(member)]; }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> states_;
  std::map<Name, Pointer> operations_;
  std::optional<std::string> abort_reason_;
};

// `communicator` over the network: results and bytes are theirs, times the network's. self() is the
// member there.
std::unique_ptr<Communicator> make_simulated_communicator(
    std::unique_ptr<Communicator> communicator, std::shared_ptr<SimulatedNetwork> network);

}  // namespace thinwire::transport
