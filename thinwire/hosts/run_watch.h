// What the live page of a served run shows (page/live_run.h), from what the coordinator knows: the
// ledger, and the latest reports of members.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/hosts/contributions.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/hosts/served_run.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/state.h"
#include "thinwire/page/live_run.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::hosts {

// Combines the losses that the members of a run report, each over its own rows, into means over all
// rows. A pure state machine.

// Not thread-safe.
class LossBoard {
 public:
  struct Point {
    std::string set;  // as in membership::Loss
    int64_t step = 0;
    double loss = 0;  // or the value of the metric
    bool score = false;
  };

  // `sets`: the names of the validation sets; `scores`: of the tasks' metrics. Others are ignored.
  explicit LossBoard(std::set<std::string> sets, std::set<std::string> scores = {});

  // `newest`: the last step of the rounds opened so far. Ignored are later steps, a member's second
  // report on the same set and step, and steps that were already taken.
  void add(const membership::Loss& loss, int64_t newest);
  // How many members have reported on this set and step.
  size_t reports(const std::string& set, int64_t step) const;
  // The mean losses on this set up to step `last`, in the order of steps; each is returned once.
  std::vector<Point> take(const std::string& set, int64_t last);
  // The same for training up to step `trained`, and for each validation set up to step `evaluated`.
  std::vector<Point> take_all(int64_t trained, int64_t evaluated);
  // The mean losses of the evaluation after `step` steps on the sets that so many members have
  // reported on.
  std::vector<Point> take_reported(int64_t step, size_t members);

 private:
  struct Sum {
    double loss = 0;
    double weight = 0;
    std::set<int> members;
  };

  std::set<std::string> sets_;  // and scores
  std::set<std::string> scores_;
  std::map<std::pair<std::string, int64_t>, Sum> sums_;  // by set and step
  std::map<std::string, int64_t> taken_;                 // by set, the last step
};

// The board of a run's losses.
LossBoard loss_board(const ServedRun& run);

// What members do now. An active member computes until it announces its contribution to the first
// round in which it has rows, sends it until the coordinator has it, and then waits for the members
// that are still missing.
class MembersNow {
 public:
  // Both must outlive it and stay as they are.
  MembersNow(const membership::State& state, const std::map<int, serve::LatestReport>& reports)
      : state_(state), reports_(reports) {}

  page::MemberNow of(int id);

 private:
  void describe_active(page::MemberNow& member, const serve::LatestReport& report);

  const membership::State& state_;
  const std::map<int, serve::LatestReport>& reports_;
  std::map<uint64_t, std::string> waits_for_;  // by round
};

// Updates the page with what happens in the run.
class RunWatch {
 public:
  // `recipe`: resolved. All references must outlive it.
  RunWatch(const config::Recipe& recipe, LossBoard losses, page::LiveRun& page,
           MachineOf machine_of)
      : recipe_(recipe),
        sums_(sync::sum_rule(recipe)),
        page_(page),
        machine_of_(std::move(machine_of)),
        losses_(std::move(losses)) {}

  // Called by the thread that ticks the coordinator: CoordinatorHost's hook of the same name.
  // `now`: seconds of any clock.
  void record(const membership::Record& record, bool earlier, double now);
  // The hook of this name, too, on the same thread. A round's training loss and the evaluations
  // before its last step are shown once the round is closed, when everyone who contributed has
  // reported them; the final evaluation once all who contributed to the last round have reported
  // it.
  void add_loss(const membership::Loss& loss);
  // From any one thread, several times a second. `obstacle`: as of status_of().
  void update(const serve::CoordinatorHost& host, const std::string& obstacle,
              const std::map<int, Contributed>& contributed);
  // A message shown on the coordinator's terminal. Any thread.
  void add_message(const std::string& text) { page_.add_fault({}, text); }

 private:
  struct Opened {
    membership::Opening opening;
    double at = 0;
    bool earlier = false;
  };

  void close(const membership::Closing& closing, bool earlier, double now);
  void note(const membership::PhaseChange& change);
  void show(const std::vector<LossBoard::Point>& losses);

  // Bytes of what a commit makes the members of a round receive, all together.
  uint64_t received_for(const Commit& commit, uint64_t members) const;

  const config::Recipe& recipe_;
  const std::optional<sync::SumRule> sums_;
  page::LiveRun& page_;
  const MachineOf machine_of_;
  std::map<uint64_t, Opened> open_;  // rounds
  LossBoard losses_;
  std::optional<int64_t> ended_;    // after which step an evaluation has ended the run
  int64_t newest_step_ = 0;         // the last step of the rounds opened so far
  size_t newest_contributors_ = 0;  // to the round opened last: its roster until it is closed
};

}  // namespace thinwire::hosts
