// libFuzzer target of member::open_snapshot (preset fuzz): whatever opens can be read, and nothing
// is left of its files.
#include <unistd.h>

#include <span>
#include <string>

#include "target.h"
#include "tests/paths.h"
#include "thinwire/base/error.h"
#include "thinwire/member/snapshot.h"

FUZZ_TARGET(snapshot)(const uint8_t* data, size_t size) {
  static const thinwire::fs::path folder =
      thinwire::tests::memory_folder() / ("snapshot_fuzz." + std::to_string(getpid()));
  const auto snapshot =
      thinwire::member::open_snapshot(std::span<const uint8_t>(data, size), folder);
  require(!thinwire::fs::exists(folder));
  if (!snapshot) return 0;
  try {
    const thinwire::tensor::SafetensorsReader& weights = (*snapshot)->weights();
    for (const std::string& name : weights.names()) (void)weights.read_f32(name);
    (void)(*snapshot)->consensus_names();
  } catch (const thinwire::Error&) {  // it has no weights, or of another type
  }
  return 0;
}
