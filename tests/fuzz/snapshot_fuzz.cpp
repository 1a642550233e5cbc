// libFuzzer target of member::open_snapshot (preset fuzz): whatever opens can be read or is
// refused, what a member has read gives a snapshot of the same values, and nothing is left of its
// files.
#include <unistd.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "target.h"
#include "tests/paths.h"
#include "thinwire/base/error.h"
#include "thinwire/member/snapshot.h"

namespace {

using thinwire::as_bytes;
using thinwire::checkpoint::CheckpointReader;

// What a member keeps, of the shapes that SnapshotFuzz (statement_test.cpp) makes.
struct Taken {
  thinwire::tensor::Layout layout{{{"a.weight", {3, 5}}, {"b.weight", {2}}}};
  thinwire::tensor::Arena weights{layout};
  std::vector<float> state = std::vector<float>(3);

  explicit Taken(const CheckpointReader& snapshot) {
    snapshot.read_weights(weights);
    snapshot.read_consensus("state", state);
  }
};

void read_all(const CheckpointReader& snapshot) {
  const thinwire::tensor::SafetensorsReader& weights = snapshot.weights();
  for (const std::string& name : weights.names()) (void)weights.read_f32(name);
  (void)snapshot.consensus_names();
}

void take(const CheckpointReader& snapshot, const thinwire::fs::path& folder) {
  const Taken taken(snapshot);
  const std::vector<thinwire::NamedValues> state = {{"state", taken.state}};
  const auto step = static_cast<int64_t>(snapshot.meta().step);
  const auto again = thinwire::member::open_snapshot(
      thinwire::member::make_snapshot(snapshot.meta().run, step, taken.weights, state, folder),
      folder);
  require(again.has_value() && (*again)->meta().step == snapshot.meta().step &&
          (*again)->meta().run == snapshot.meta().run);
  const Taken retaken(**again);
  require(std::ranges::equal(std::as_const(taken.weights).bytes(),
                             std::as_const(retaken.weights).bytes()) &&
          std::ranges::equal(as_bytes(std::span<const float>(taken.state)),
                             as_bytes(std::span<const float>(retaken.state))));
}

}  // namespace

FUZZ_TARGET(snapshot)(const uint8_t* data, size_t size) {
  static const thinwire::fs::path folder =
      thinwire::tests::memory_folder() / ("snapshot_fuzz." + std::to_string(getpid()));
  const auto snapshot =
      thinwire::member::open_snapshot(std::span<const uint8_t>(data, size), folder);
  require(!thinwire::fs::exists(folder));
  if (!snapshot) return 0;
  for (const bool all : {true, false}) {
    try {
      all ? read_all(**snapshot) : take(**snapshot, folder);
    } catch (const thinwire::Error&) {  // it has no weights, or of another type or shape
    }
  }
  require(!thinwire::fs::exists(folder));
  return 0;
}
