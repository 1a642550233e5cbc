#include "thinwire/train/measured_speeds.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "thinwire/base/bytes.h"
#include "thinwire/method/operations.h"
#include "thinwire/method/registry.h"

namespace thinwire::train {
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
      every_(method::rounds_of(recipe).every),
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
