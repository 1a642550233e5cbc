#include <algorithm>
#include <optional>
#include <utility>

#include "thinwire/member/committed_communicator.h"
#include "thinwire/train/worker.h"

namespace thinwire::member {
namespace {

// Where rounds come from; may be copied to other threads.
struct Source {
  uint64_t run;
  int self;
  Follower& follower;
  const membership::RecipePlan& plan;
  LedgerPace pace;
  ReplayedRounds replayed;
  uint64_t computes_from = 0;  // the step after the replayed rounds; 0: there are none

  static void add_inactive(Round& round, int member) {
    const auto place = std::ranges::upper_bound(round.roster, member, {}, &RoundMember::id);
    round.roster.insert(place, round.member(member));
  }

  // The ledger says how many of its own rows a member takes; which ones is its own matter. A step
  // takes those after the ones of the step before, as long as they are as many, and each member
  // has an order of its own, so that two with the same text do not train on the same rows.
  void name_own_rows(Round& round) const {
    const auto mine = std::ranges::find(round.roster, self, &RoundMember::id);
    if (mine == round.roster.end()) return;
    constexpr int kOrderBits = 40;
    mine->rows.first = (static_cast<uint64_t>(self) << kOrderBits) + round.step * mine->rows.count;
  }

  // Whether the run ends after these steps by an evaluation, or that is still to be decided.
  bool ends_or_may_end(uint64_t completed) const {
    return plan.decides_after(completed) && follower.may_end_after(completed);
  }

  // Waits until the round of a step is open.
  Result<Round> find(int64_t step) const {
    const auto number = static_cast<uint64_t>(step);
    const auto opening = follower.opening(plan.round_of(number));
    if (!opening) return tl::unexpected(opening.error());
    Round round = plan.step(*opening, run, number);
    if (round.has(self)) {
      round.replayed = replayed.has(opening->round);
      if (opening->round >= replayed.end) round.entered = computes_from;
    }
    if (pace.own_rows) name_own_rows(round);
    // Every member present at the end has the final weights, even if it did not train in the last
    // round.
    const bool may_end = round.last || ends_or_may_end(number + 1);
    const bool follows_the_end = may_end && !round.has(self);
    // Strategies send nothing in a round with one member, but inactive members may follow this one.
    const bool alone = round.size() == 1;
    round.followed = alone && plan.workers() == 1;
    if (follows_the_end) {
      add_inactive(round, self);
    } else if (alone && !round.followed) {
      add_inactive(round, round.has(self) ? self + 1 : self);
    }
    return round;
  }
};

class LedgerRounds final : public train::RoundSource {
 public:
  LedgerRounds(const Source& source, CommittedCommunicator& communicator)
      : source_(source), communicator_(communicator) {}

  Round at(int64_t step) const override {
    const auto round = source_.find(step);
    if (!round) throw train::Aborted(round.error().message);
    return *round;
  }

  // Returns an empty round for steps after the last one and once the replica has ended; its rows
  // are not used.
  Plan plan() const override {
    return [source = source_](int64_t step) {
      if (step >= source.pace.steps) return Round();
      const auto round = source.find(step);
      return round ? *round : Round();
    };
  }
  void stop_waiting() override { source_.follower.end_waits(); }

  std::optional<train::Decided> decided(int64_t completed) override {
    const bool due = source_.plan.decides_after(static_cast<uint64_t>(completed));
    const auto evaluations = source_.follower.evaluations(completed, due);
    if (!evaluations) {
      if (source_.follower.starts_over() || !source_.follower.stopped()) {
        throw train::Aborted(evaluations.error().message);
      }
      return train::Decided{.best = {}, .stopped = true};
    }
    train::Decided decided;
    for (const membership::Evaluation& one : *evaluations) {
      if (one.loss) decided.best.add(static_cast<int64_t>(one.step), *one.loss);
      decided.ends = one.ends && std::cmp_equal(one.step, completed);
    }
    return decided;
  }

  void computed(const Round& round, uint64_t rows, double seconds) override {
    if (rows == 0) return;
    const double least = static_cast<double>(rows) * source_.pace.row_seconds;
    if (seconds < least) source_.follower.pause_for(least - seconds);
    if (source_.pace.is_private) return;  // it follows from the member's text
    membership::Spent spent;
    if (source_.pace.spent_on) spent = source_.pace.spent_on(seconds);
    spent.seconds = std::max(seconds, least);
    communicator_.computed(source_.plan.round_of(round.step), spent);
  }
  Result<bool> completed(const Round& round) override {
    const uint64_t steps = round.step + 1;
    if (source_.plan.ends_after(steps)) communicator_.completed(source_.plan.last_ended(steps));
    source_.follower.completed(static_cast<int64_t>(steps));
    return false;
  }

 private:
  const Source source_;
  CommittedCommunicator& communicator_;
};

}  // namespace

std::unique_ptr<train::RoundSource> ledger_rounds(uint64_t run, Follower& follower,
                                                  CommittedCommunicator& communicator,
                                                  const membership::RecipePlan& plan,
                                                  const LedgerPace& pace) {
  const ReplayedRounds replayed = follower.replayed();
  const bool any = replayed.first < replayed.end;
  const uint64_t computes_from = any ? plan.round(replayed.end).first_step : 0;
  return std::make_unique<LedgerRounds>(
      Source{run, communicator.rank(), follower, plan, pace, replayed, computes_from},
      communicator);
}

}  // namespace thinwire::member
