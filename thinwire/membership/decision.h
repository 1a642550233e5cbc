// The decisions of a coordinator: derives the next record from the ledger's state and what has been
// received since. A pure function.
#pragma once

#include <cstdint>
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
  uint64_t batch = 0;                  // the round's rows
  uint64_t rows = 0;                   // of the members whose contributions are all there
  std::vector<double> seconds;         // until each of these was complete, since the round opened
  std::set<int> missing;               // the roster's other members
  std::optional<Deadlines> deadlines;  // of `seconds`, if they were needed
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

  // --- for who wants to know whether there is anything to decide (Agenda), before run()
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
  // Whether the oldest open round is to be opened again for others than its roster.
  bool can_reopen() const;
  // Whether the evaluation that is due can be recorded.
  bool can_evaluate() const;
  // Whether a member that was last heard at this time is lost.
  bool is_silent(double since) const;
  // Whether a contribution of a member in the roster of an open round may still come: it is present
  // and has the replica for it.
  bool may_contribute(int member) const { return is_with_round(member) && !is_absent(member); }

 private:
  // --- evaluations (decision_evaluation.cpp)
  void evaluate();
  bool will_report(int member) const;
  bool may_open(uint64_t number) const;
  // The last round that was opened: the newest open one, or the one whose evaluation was due last.
  const Opening* last_opening() const;

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
  bool is_with_round(int member) const;
  bool is_awaited(int member) const;
  bool is_absent(int member) const;
  bool is_long_silent(int member) const;
  double silence(double since) const;
  bool is_cut_off() const;
  bool has_half(const Arrivals& arrivals) const;
  const Arrival* contribution(int member, uint64_t round, uint32_t epoch, uint32_t fragment) const;
  void close();
  Commit commit(const Opening& opening, const PlannedOperation& operation) const;
  void record_speeds(const Opening& opening);
  void note_rows(int member, uint64_t rows, float known);
  static void limit_claims(std::vector<float>& rows);
  void open_rounds();
  bool is_deserted(const Opening& opening) const;
  void open(uint64_t number, uint32_t epoch, const std::vector<int>& members);
  uint64_t active_since(int member, const Opening& opening) const;
  std::vector<int> next_roster() const;
  std::vector<int> successors() const;
  void leave_out_silent();
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

// Whether a coordinator may have anything to decide, at the cost of what it has received since it
// last looked. A decision looks at every member (decision.h), but most messages change nothing: an
// offer, before others have come as well, or a report that the member is still there.

// Not thread-safe.
class Agenda {
 public:
  // Something has happened that any decision may depend on, such as a record.
  void reopen();
  // A message of this member has arrived, or the store has a payload of its.
  void heard(int member) {
    if (!open_) heard_.push_back(member);
  }
  // False: its run() would record and refuse nothing. `decision` has not run, and must not run
  // afterwards.
  bool is_due(Decision& decision);
  // Its run() has recorded and refused nothing.
  void close(const Decision& decision);

 private:
  bool may_matter(Decision& decision, int member);
  bool may_change_digest(const Decision& decision, int member);

  bool open_ = true;
  std::vector<int> heard_;  // since the last is_due()
  // What follows was true when it was closed, and is kept up to date by what was heard.
  std::optional<double> silent_since_;  // no member that is present was last heard before that
  bool lacks_members_ = false;
  Arrivals arrivals_;
  size_t active_ = 0;
  // Who has reported a digest, by its round, of rounds that no digest is agreed on.
  std::map<uint64_t, std::set<int>> reporters_;
  bool has_majority_ = false;  // one of these has more than half of the active members
};

}  // namespace thinwire::membership
