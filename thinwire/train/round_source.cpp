#include "thinwire/train/round_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/config/sections.h"
#include "thinwire/method/operations.h"
#include "thinwire/method/registry.h"
#include "thinwire/schedule/schedule.h"

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
  const method::StepRates rates = method::step_rates(recipe, rounds, step);
  round.learning_rate = rates.learning_rate;
  round.round_rate = rates.round_rate;
  round.closes = rounds.closes(step);
  round.last = step + 1 == rounds.steps;
  round.roster = open_roster(recipe, members, step, rounds.every, speeds);
  return round;
}

namespace {

class RecipeRounds final : public RoundSource {
 public:
  RecipeRounds(const config::Recipe& recipe, uint64_t run, transport::Communicator& communicator,
               PermitHold& permits)
      : recipe_(recipe),
        run_(run),
        members_(static_cast<int>(recipe.train.workers)),
        speeds_(recipe, communicator, permits) {}

  void restored(int64_t completed) override {
    speeds_.restored(completed, [this](int64_t step) { return at(step); });
  }

  Round at(int64_t step) const override {
    return open_round(recipe_, run_, members_, step, speeds_.speeds());
  }

  Plan plan() const override {
    const std::span<const float> speeds = speeds_.speeds();
    return [&recipe = recipe_, run = run_, members = members_,
            now = std::vector<float>(speeds.begin(), speeds.end())](int64_t step) {
      return open_round(recipe, run, members, step, now);
    };
  }

  void computed(const Round& round, uint64_t rows, double seconds) override {
    speeds_.computed(round, rows, seconds);
  }
  Result<bool> completed(const Round& round) override { return speeds_.collect(round); }
  std::vector<StateTensor> state() override { return speeds_.state(); }

 private:
  const config::Recipe& recipe_;
  const uint64_t run_;
  const int members_;
  MeasuredSpeeds speeds_;
};

}  // namespace

std::unique_ptr<RoundSource> recipe_rounds(const config::Recipe& recipe, uint64_t run,
                                           transport::Communicator& communicator,
                                           PermitHold& permits) {
  return std::make_unique<RecipeRounds>(recipe, run, communicator, permits);
}

namespace {

float speed_in(const Bytes& payload) {
  float speed = 0;
  if (payload.size() == sizeof(speed)) std::memcpy(&speed, payload.data(), sizeof(speed));
  return std::isfinite(speed) && speed > 0 ? speed : 0;
}

}  // namespace

MeasuredSpeeds::MeasuredSpeeds(const config::Recipe& recipe, transport::Communicator& communicator,
                               PermitHold& permits)
    : recipe_(recipe),
      every_(method::speeds_every(recipe)),
      communicator_(communicator),
      permits_(permits) {
  if (recipe.sync.shares != config::RowShares::kSpeed) return;
  speeds_.resize(static_cast<size_t>(recipe.train.workers));
  measured_.resize(2);
  sent_.resize(1);
}

void MeasuredSpeeds::restored(int64_t completed,
                              const std::function<Round(int64_t step)>& round_at) {
  const int64_t last = completed / every_ * every_;
  if (!speeds_.empty() && last > 0 && last + every_ < recipe_.train.steps) {
    send(round_at(last - 1));
  }
}

void MeasuredSpeeds::computed(const Round& round, uint64_t rows, double seconds) {
  if (speeds_.empty()) return;
  measured_[0] += static_cast<float>(rows);
  measured_[1] += static_cast<float>(seconds);
  const auto completed = static_cast<int64_t>(round.step) + 1;
  if (completed % every_ != 0) return;
  sent_[0] = measured_[1] > 0 ? measured_[0] / measured_[1] : 0;
  measured_[0] = measured_[1] = 0;
  if (completed + every_ < recipe_.train.steps) send(round);
}

Result<bool> MeasuredSpeeds::collect(const Round& round) {
  const auto completed = static_cast<int64_t>(round.step) + 1;
  const bool due = completed % every_ == 0 && completed > every_ && completed < recipe_.train.steps;
  if (speeds_.empty() || !due) return false;
  permits_.pause();
  const auto list =
      communicator_.wait_all_gather(key(round.run, completed - every_), recipe_.sync.timeout_s);
  permits_.resume();
  if (!list) return tl::unexpected(list.error());
  const std::vector<float> before = speeds_;
  std::ranges::fill(speeds_, 0.0f);
  for (const transport::Delivery& one : *list) {
    if (one.member >= std::ssize(speeds_)) continue;
    speeds_[static_cast<size_t>(one.member)] = speed_in(*one.payload);
  }
  return speeds_ != before;
}

std::vector<StateTensor> MeasuredSpeeds::state() {
  if (speeds_.empty()) return {};
  return {{"speeds", speeds_, sync::Agreement::kConsensus},
          {"local.measured", measured_, sync::Agreement::kLocal},
          {"local.offered_speed", sent_, sync::Agreement::kLocal}};
}

void MeasuredSpeeds::send(const Round& round) {
  const std::span<const uint8_t> bytes = as_bytes(std::span<const float>(sent_));
  communicator_.start_all_gather(key(round.run, static_cast<int64_t>(round.step) + 1),
                                 Bytes(bytes.begin(), bytes.end()), round.active());
}

transport::Key MeasuredSpeeds::key(uint64_t run, int64_t completed) {
  return {run, 0, static_cast<uint64_t>(completed), method::kSpeedsFragment};
}

}  // namespace thinwire::train
