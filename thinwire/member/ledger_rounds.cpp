#include "thinwire/member/ledger_rounds.h"

#include <algorithm>

#include "thinwire/train/worker.h"

namespace thinwire::member {
namespace {

// Where rounds come from; may be copied to other threads.
struct Source {
  uint64_t run;
  int self;
  Follower& follower;
  const membership::RecipePlan& plan;
  int64_t steps;

  static void add_inactive(Round& round, int member) {
    const auto place = std::ranges::upper_bound(round.roster, member, {}, &RoundMember::id);
    round.roster.insert(place, round.member(member));
  }

  // Waits until the round of a step is open.
  Result<Round> find(int64_t step) const {
    const auto number = static_cast<uint64_t>(step);
    const auto opening = follower.opening(plan.round_of(number));
    if (!opening) return tl::unexpected(opening.error());
    Round round = plan.step(*opening, run, number);
    // Whoever is there at the end has the final weights, even if it did not train in the last
    // round.
    const bool follows_the_end = round.last && !round.has(self);
    // Strategies send nothing in a round of one, but others may follow this one.
    const bool alone = round.size() == 1;
    if (follows_the_end || alone) add_inactive(round, round.has(self) ? self + 1 : self);
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

  // The rows of steps behind the last one, and of those that are not taken any more, are not used.
  Plan plan() const override {
    return [source = source_](int64_t step) {
      if (step >= source.steps) return Round();
      const auto round = source.find(step);
      return round ? *round : Round();
    };
  }
  void stop_waiting() override { source_.follower.end_waits(); }

  void computed(const Round& round, uint64_t rows, double seconds) override {
    if (rows > 0) communicator_.computed(source_.plan.round_of(round.step), seconds);
  }
  Result<bool> completed(const Round& round) override {
    source_.follower.completed(static_cast<int64_t>(round.step) + 1);
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
                                                  int64_t steps) {
  return std::make_unique<LedgerRounds>(Source{run, communicator.rank(), follower, plan, steps},
                                        communicator);
}

}  // namespace thinwire::member
