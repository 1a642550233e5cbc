// The decisions of a coordinator: derives the next record from the ledger's state and what has been
// received since. A pure function.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "thinwire/membership/messages.h"
#include "thinwire/membership/observed.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/membership/state.h"

namespace thinwire::membership {

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

 private:
  // --- members (decision.cpp)
  void admit();
  void follow(int member, const Seen& seen);
  void let_return(int member, const Seen& seen);
  void start_catching_up(int member, const Position* position);
  void count_offences(int member, const Seen& seen);
  void take_snapshots();
  void compare_digests();
  bool caught_up(int member) const;
  Phase phase(int member) const;
  void set_phase(int member, Phase phase, std::optional<uint64_t> snapshot = std::nullopt);

  // --- rounds (decision_round.cpp)
  bool can_close() const;
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
