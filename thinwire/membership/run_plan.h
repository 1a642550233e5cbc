// What a run does, round by round, regardless of who takes part: it follows from the recipe; a
// coordinator writes it into the ledger, and members read it there.
//
// A round of the ledger ends where operations open, and contains all that open there; it also ends
// where an evaluation decides something, perhaps without an operation. A method
// whose fragments are exchanged one after another therefore has several rounds of the ledger in
// each round of its own (schedule/schedule.h), whose number the steps of all of them carry. Where
// operations open after one step one after the other (method::Operation::turn), those after the
// first have rounds of the ledger without steps.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/round.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"
#include "thinwire/membership/observed.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/state.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::membership {

// Pure functions; any thread.
class RunPlan {
 public:
  virtual ~RunPlan() = default;
  virtual uint64_t workers() const = 0;  // the number of members that the run starts with
  virtual uint64_t batch() const = 0;    // rows per step, over all members
  // How many rounds may be open besides the oldest, that is, how many may have exchanges in flight
  // while members compute.
  virtual uint64_t overlap() const = 0;
  virtual uint64_t rounds() const = 0;
  // An opening without its epoch and roster. `number` < rounds().
  virtual Opening round(uint64_t number) const = 0;
  // Whether an evaluation after so many training steps decides something (Evaluation): then a round
  // ends there, and the next one opens once that is recorded.
  virtual bool decides_after(uint64_t /*completed*/) const { return false; }
};

// The same, and the training steps of which a member makes its rounds.
class StepPlan : public RunPlan {
 public:
  // The round that contains a training step, which the run has; rounds without steps may follow it.
  virtual uint64_t round_of(uint64_t step) const = 0;
  // Whether a round ends once `completed` steps are done.
  virtual bool ends_after(uint64_t completed) const = 0;
  // The last round that has ended then, which one has.
  virtual uint64_t last_ended(uint64_t completed) const { return round_of(completed - 1); }
  // How many rounds, counted from the first, have nothing in flight once `completed` steps are
  // done: all of their results have been awaited.
  virtual uint64_t settled_rounds(uint64_t completed) const = 0;
};

// The plan of a recipe: its operations are those of method::operations_of, its rates those of
// method::step_rates. The recipe must outlive it.
class RecipePlan final : public StepPlan {
 public:
  // `tensors`: the model's. Takes time and memory in proportion to the number of operations of the
  // run. Throws UsageError for a recipe whose operations are not among all members at once
  // (clusters).
  RecipePlan(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

  uint64_t workers() const override;
  uint64_t batch() const override;
  uint64_t overlap() const override { return overlap_; }
  uint64_t rounds() const override { return rounds_.size(); }
  Opening round(uint64_t number) const override;
  uint64_t round_of(uint64_t step) const override;
  bool ends_after(uint64_t completed) const override;
  uint64_t last_ended(uint64_t completed) const override;
  uint64_t settled_rounds(uint64_t completed) const override;
  bool decides_after(uint64_t completed) const override;

  // A training step of a round that is open or was, as a worker needs it.
  Round step(const Opening& opening, uint64_t run, uint64_t step) const;
  // The round that commits an operation, by the names that the method gives it (OperationKey::round
  // and fragment); nothing for an operation that the run does not have.
  std::optional<uint64_t> round_of_operation(uint64_t round, uint32_t fragment) const;
  // The method's name for an operation of a round; nothing if the round has none with this
  // fragment.
  struct OperationName {
    uint64_t round = 0;  // OperationKey::round
    uint64_t bytes = 0;  // maximum size of a contribution
  };
  std::optional<OperationName> operation_of(uint64_t round, uint32_t fragment) const;

 private:
  struct Planned {
    uint64_t end = 0;      // the step after its last one
    uint64_t due = 0;      // the last of its operations' results, or its end
    uint64_t settled = 0;  // completed steps after which its results have all been awaited
    std::vector<PlannedOperation> operations;
  };
  struct Name {
    uint32_t fragment;
    uint64_t named;  // OperationKey::round
    uint64_t round;
    auto operator<=>(const Name&) const = default;
  };

  void plan(std::span<const TensorSpec> tensors);
  void add(Planned& round);  // and begins the next one

  const config::Recipe& recipe_;
  const schedule::Rounds method_rounds_;
  uint64_t overlap_ = 0;
  std::vector<Planned> rounds_;
  std::vector<Name> names_;  // sorted
};

// How a member catches up with the run: by replaying the rounds it missed, or from a snapshot and
// the rounds since. Pure functions.
struct CatchUp {
  std::optional<uint64_t> snapshot;  // none: replay from the member's position
  uint64_t bytes = 0;                // to receive
};

// Chooses the one with fewer bytes to receive; replay if they are equal. `position` is how far the
// member has got, or null if it has nothing; pass null too if it is not on the ledger's chain.
CatchUp plan_catch_up(const State& state, const Position* position);

// Whether the newest snapshot is of use to a member that lacks what it would need to go on from
// where it is, or from the snapshot that it was assigned.
bool helps_with(const State& state, int member, const Lack& lack);

// Why a link that receives `down_bytes_s` bytes a second (0: not known) cannot catch up with a run
// of this pace. Empty if it can, or if that is not known.
std::string too_slow(const CatchUp& plan, double down_bytes_s, const Pace& pace);

// How many members a run has room for: its records list every one of them, and are limited
// (ledger.h). A pure function.

// Admissions in one record; others follow in the next.
inline constexpr uint64_t kAdmittedAtOnce = 256;

// The members of a roster whose closings and openings fit into a record of
// options.max_record_bytes, whichever round it is; at least 1.
uint64_t room_for_members(const RunPlan& plan, const Options& options);

// The share that the rows of a contribution to an earlier round had in the batch of that round.
float late_share(const RunPlan& plan, const Contribution& late);
// The same of any contribution that a commit of this round lists; one to this round has the share
// that its member has in the round (RoundMember::weight).
float share_of(const RunPlan& plan, const Opening& opening, const Contribution& listed);

// The factor that turns a sum over what a commit lists into a mean: members weight what they send
// by their share of the rows of all contributors, and a commit may leave some out, or list late
// contributions of an earlier round. It is 1 divided by the sum of the listed shares; exactly 1 if
// none is left out or late, and 1 if none is listed. A late contribution's share is that of its
// rows in the whole batch of its own round, whoever contributed to that. `from` as for
// transport::Communicator::start_all_reduce; empty: the whole roster.
float mean_factor(const RunPlan& plan, const Opening& opening, const std::vector<int>& from,
                  const std::vector<Contribution>& listed);

}  // namespace thinwire::membership
