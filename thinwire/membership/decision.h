// The decisions of a coordinator: derives the next record from the ledger's state and what has been
// received since. A pure function.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "thinwire/membership/messages.h"
#include "thinwire/membership/observed.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/membership/state.h"

namespace thinwire::membership {

// What has arrived of the oldest open round.
struct Arrivals {
  uint64_t batch = 0;              // the round's rows
  uint64_t rows = 0;               // of the members whose contributions are all there
  std::vector<double> seconds;     // until each of these was complete, since the round opened
  std::set<int> missing;           // the roster's other members
  std::optional<double> deadline;  // deadline_s of `seconds`, if it was needed
};

class Decision {
 public:
  // All references must outlive it; `state` has its founding record. `room`: for so many members
  // (room_for_members).
  Decision(const RunPlan& plan, const Options& options, uint64_t room, const State& state,
           const Observed& observed, double now)
      : plan_(plan),
        options_(options),
        room_(room),
        state_(state),
        observed_(observed),
        now_(now) {}

  // What to record now, as a record without its position in the chain.
  Record run();
  // Set by run(): requests that cannot be granted.
  const std::vector<Refuse>& refusals() const { return refusals_; }

  // --- for who wants to know whether there is anything to decide (agenda.h), before run()
  const State& state() const { return state_; }
  const Observed& observed() const { return observed_; }
  // Whether it would record or refuse something because of what is known of this member alone. The
  // decision is good for nothing else after that.
  bool concerns(int member);
  // Whether a round would open if only there were members for it.
  bool lacks_members() const;
  // Whether it can train from the next round on: it has applied the last closing and the record
  // that set its phase.
  bool caught_up(int member) const;
  Arrivals arrivals() const;
  // Moves the member from those that are missing if all it contributes has arrived.
  void count(int member, Arrivals& arrivals) const;
  bool can_close(Arrivals& arrivals) const;
  // Whether a member that was last heard at this time is lost.
  bool is_silent(double since) const;

 private:
  // --- members (decision.cpp)
  void admit();
  void follow(int member, const Seen& seen);
  void let_return(int member, const Seen& seen);
  void start_catching_up(int member, const Position* position);
  void count_offences(int member, const Seen& seen);
  void take_snapshots();
  void compare_digests();
  Phase phase(int member) const;
  void set_phase(int member, Phase phase, std::optional<uint64_t> snapshot = std::nullopt);

  // --- rounds (decision_round.cpp)
  bool has_arrived(int member) const;
  bool was_refused(int member) const;
  bool has_replica(int member) const;
  bool is_awaited(int member) const;
  bool is_absent(int member) const;
  const Arrival* contribution(int member, uint64_t round, uint32_t epoch, uint32_t fragment) const;
  void close();
  Commit commit(const Opening& opening, const PlannedOperation& operation) const;
  void record_speeds(const Opening& opening);
  void open_rounds();
  bool is_deserted(const Opening& opening) const;
  void open(uint64_t number, uint32_t epoch, const std::vector<int>& members);
  uint64_t active_since(int member, const Opening& opening) const;
  std::vector<int> next_roster() const;
  std::vector<float> speeds_of(const std::vector<int>& members) const;
  uint32_t next_epoch(const std::vector<int>& members) const;

  const RunPlan& plan_;
  const Options& options_;
  const uint64_t room_;
  const State& state_;
  const Observed& observed_;
  const double now_;
  Record record_;
  std::map<int, Phase> phases_;  // as changed by this record
  std::map<int, float> speeds_;  // likewise, in rows per second
  std::vector<Refuse> refusals_;
  uint64_t returned_ = 0;  // members that this record lets return
};

}  // namespace thinwire::membership
