#include "thinwire/member/own_checkpoint.h"

#include <fmt/format.h>

#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/events/run_log.h"
#include "thinwire/member/member_sink.h"

namespace thinwire::member {

std::optional<OwnCheckpoint> open_own_checkpoint(
    const fs::path& checkpoints, uint64_t run, int64_t steps,
    const std::function<void(const std::string& text)>& notify) {
  const auto newest = checkpoint::newest_checkpoint(checkpoints);
  if (!newest) return std::nullopt;
  try {
    auto reader = std::make_unique<checkpoint::CheckpointReader>(*newest);
    const checkpoint::CheckpointMeta& meta = reader->meta();
    const bool fits = meta.run == run && std::cmp_less_equal(meta.step, steps) &&
                      meta.numerics_version == checkpoint::kNumericsVersion;
    if (!fits) return std::nullopt;
    const auto place = decode_place(reader->read_worker_bytes(MemberSink::kOnlyWorker, kPlaceName));
    if (!place) return std::nullopt;
    return OwnCheckpoint{std::move(reader), *place};
  } catch (const Error& damage) {
    notify(fmt::format("does not continue from its checkpoint: {}", damage.what()));
    return std::nullopt;
  }
}

std::set<std::string> evaluated_at(const fs::path& log, int64_t step) {
  std::set<std::string> names;
  if (!fs::exists(log)) return names;
  for (const events::EvalEvent& event : events::read_run_log(log).evals) {
    if (event.step == step) names.insert(event.name);
  }
  return names;
}

}  // namespace thinwire::member
