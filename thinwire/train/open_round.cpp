#include "thinwire/train/open_round.h"

#include <algorithm>
#include <vector>

#include "thinwire/config/absence.h"
#include "thinwire/method/registry.h"
#include "thinwire/schedule/learning_rate.h"
#include "thinwire/schedule/row_shares.h"

namespace thinwire::train {
namespace {

// Ids and rows: each member takes consecutive rows of the step, in the order of members.
std::vector<RoundMember> open_roster(const config::Recipe& recipe, int members, int64_t step,
                                     int64_t every, std::span<const float> speeds) {
  const std::vector<config::Absence> absences = config::absences_of(recipe.sync, members);
  const int64_t number = step / every + 1;
  std::vector<uint8_t> present;
  for (int member = 0; member < members; ++member) {
    present.push_back(config::is_absent(absences, member, number) ? 0 : 1);
  }
  const auto batch = static_cast<uint64_t>(recipe.train.batch);
  const std::vector<uint64_t> rows = schedule::share_rows(batch, present, speeds);
  std::vector<RoundMember> roster;
  uint64_t first = static_cast<uint64_t>(step) * batch;
  for (int member = 0; member < members; ++member) {
    const uint64_t count = rows[static_cast<size_t>(member)];
    const auto weight = static_cast<float>(static_cast<double>(count) / static_cast<double>(batch));
    const int64_t since = (config::unchanged_since(absences, member, number) - 1) * every;
    roster.push_back({member, {first, count}, weight, static_cast<uint64_t>(since)});
    first += count;
  }
  return roster;
}

}  // namespace

RowRange share(uint64_t count, int index, int members) {
  const auto at = static_cast<uint64_t>(index);
  const auto all = static_cast<uint64_t>(members);
  const uint64_t first = schedule::even_share_begin(count, at, all);
  return {first, schedule::even_share_begin(count, at + 1, all) - first};
}

RowRange share_of(const Round& round, int id, uint64_t count) {
  const auto found = std::ranges::find(round.roster, id, &RoundMember::id);
  if (found == round.roster.end()) return {};
  return share(count, static_cast<int>(found - round.roster.begin()), round.size());
}

Round open_round(const config::Recipe& recipe, uint64_t run, int members, int64_t step,
                 std::span<const float> speeds) {
  const schedule::Rounds rounds = method::rounds_of(recipe);
  Round round;
  round.run = run;
  round.number = static_cast<uint64_t>(rounds.number(step));
  round.step = static_cast<uint64_t>(step);
  const schedule::StepRates rates =
      schedule::step_rates(recipe.schedule, recipe.optim.lr, rounds, step);
  round.learning_rate = rates.learning_rate;
  round.round_rate = rates.round_rate;
  round.closes = rounds.closes(step);
  round.last = step + 1 == rounds.steps;
  round.roster = open_roster(recipe, members, step, rounds.every, speeds);
  return round;
}

}  // namespace thinwire::train
