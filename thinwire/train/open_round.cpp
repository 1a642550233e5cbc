#include "thinwire/train/open_round.h"

#include "thinwire/method/registry.h"
#include "thinwire/schedule/learning_rate.h"

namespace thinwire::train {

RowRange share(uint64_t count, int index, int members) {
  const auto at = static_cast<uint64_t>(index);
  const auto all = static_cast<uint64_t>(members);
  const uint64_t first = count * at / all;
  return {first, count * (at + 1) / all - first};
}

Round open_round(const config::Recipe& recipe, uint64_t run, int members, int64_t step) {
  const schedule::Rounds rounds = method::rounds_of(recipe);
  Round round;
  round.run = run;
  round.number = static_cast<uint64_t>(rounds.number(step));
  round.step = static_cast<uint64_t>(step);
  const auto rate = [&](int64_t at) {
    return schedule::learning_rate(recipe.schedule, recipe.optim.lr, recipe.train.steps, at);
  };
  round.learning_rate = static_cast<float>(rate(step));
  double sum = 0;
  for (int64_t at = rounds.first_step(step); at <= step; ++at) sum += rate(at);
  round.round_rate = static_cast<float>(sum);
  round.closes = rounds.closes(step);
  round.last = step + 1 == rounds.steps;
  const auto batch = static_cast<uint64_t>(recipe.train.batch);
  for (int member = 0; member < members; ++member) {
    RowRange rows = share(batch, member, members);
    rows.first += round.step * batch;
    const auto weight =
        static_cast<float>(static_cast<double>(rows.count) / static_cast<double>(batch));
    round.roster.push_back({member, rows, weight});
  }
  return round;
}

}  // namespace thinwire::train
