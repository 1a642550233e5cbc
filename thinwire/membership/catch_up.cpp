#include "thinwire/membership/catch_up.h"

#include <fmt/format.h>

#include "thinwire/base/units.h"

namespace thinwire::membership {
namespace {

// Payloads of the rounds that were closed after record `sequence`.
uint64_t bytes_behind(const State& state, uint64_t sequence) {
  uint64_t bytes = 0;
  for (auto at = state.closed_bytes.upper_bound(sequence); at != state.closed_bytes.end(); ++at) {
    bytes += at->second;
  }
  return bytes;
}

}  // namespace

CatchUp plan_catch_up(const State& state, const Position* position) {
  const auto& [sequence, snapshot] = *state.snapshots.rbegin();
  const CatchUp from_snapshot{sequence, snapshot.bytes + bytes_behind(state, sequence)};
  if (position == nullptr || position->sequence < state.replayable_from()) return from_snapshot;
  const CatchUp replay{std::nullopt, bytes_behind(state, position->sequence)};
  return replay.bytes <= from_snapshot.bytes ? replay : from_snapshot;
}

std::string too_slow(const State& state, const CatchUp& plan, double down_bytes_s, double round_s) {
  if (down_bytes_s <= 0 || round_s <= 0 || state.closed_bytes.empty()) return "";
  const auto round_bytes = static_cast<double>(state.closed_bytes.rbegin()->second);
  const double run_bytes_s = round_bytes / round_s;
  if (down_bytes_s > run_bytes_s) return "";
  return fmt::format(
      "its link receives {} a second, but the run produces {} a second ({} a round of {}), so it "
      "would never catch up on {}",
      format_bytes(down_bytes_s), format_bytes(run_bytes_s), format_bytes(round_bytes),
      format_seconds(round_s), format_bytes(static_cast<double>(plan.bytes)));
}

}  // namespace thinwire::membership
