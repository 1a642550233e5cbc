#include "thinwire/membership/record.h"

#include <algorithm>

namespace thinwire::membership {

const Share* share_of(const Opening& opening, int member) {
  const auto found = std::ranges::lower_bound(opening.roster, member, {}, &Share::member);
  return found == opening.roster.end() || found->member != member ? nullptr : &*found;
}

uint64_t batch_of(const Opening& opening) {
  uint64_t rows = 0;
  for (const Share& share : opening.roster) rows += share.rows.count;
  return rows;
}

Round step_of(const Opening& opening, uint64_t run, size_t index) {
  const uint64_t batch = batch_of(opening);
  Round round;
  round.run = run;
  round.epoch = opening.epoch;
  round.number = opening.round;
  round.step = opening.first_step + index;
  round.learning_rate = opening.steps[index].learning_rate;
  round.round_rate = opening.steps[index].round_rate;
  round.closes = index + 1 == opening.steps.size();
  round.last = opening.last && round.closes;
  for (const Share& share : opening.roster) {
    const RowRange rows{round.step * batch + share.rows.first, share.rows.count};
    const auto weight =
        static_cast<float>(static_cast<double>(rows.count) / static_cast<double>(batch));
    round.roster.push_back({share.member, rows, weight, share.since});
  }
  return round;
}

}  // namespace thinwire::membership
