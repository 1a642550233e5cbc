// Runs the fuzz targets of frames and notes briefly: on valid ones, damaged ones, and noise.
#include "thinwire/transport/frame.h"

#include <gtest/gtest.h>

#include "target.h"
#include "thinwire/base/rng.h"
#include "thinwire/launch/notes.h"

namespace thinwire::transport {
namespace {

// Changes a few bytes, or cuts the end off.
void damage(Bytes& input, Rng& rng) {
  for (uint64_t i = 0; i < rng.below(6) && !input.empty(); ++i) {
    input[rng.below(input.size())] = static_cast<uint8_t>(rng.bits());
  }
  if (rng.below(4) == 0) input.resize(rng.below(input.size() + 1));
}

// A sequence of frames as the target takes them, some of them undamaged.
Bytes frames(Rng& rng) {
  Bytes row;
  ByteWriter writer(row);
  for (uint64_t left = rng.below(8); left > 0; --left) {
    Bytes body(rng.below(30));
    for (uint8_t& byte : body) byte = static_cast<uint8_t>(rng.bits());
    auto how = static_cast<uint8_t>(rng.bits());
    if (rng.below(3) == 0) {
      how |= 1;
      body = encode_frame({static_cast<FrameKind>(1 + rng.below(8)), 1, 0, {}}, body);
    }
    writer.put(how);
    writer.put(static_cast<uint16_t>(body.size()));
    writer.put_bytes(body);
  }
  return row;
}

TEST(FrameFuzz, TargetSurvivesDamagedFramesAndNoise) {
  Rng rng(4, 1);
  for (int round = 0; round < 5000; ++round) {
    Bytes input = frames(rng);
    damage(input, rng);
    fuzz_frame(input.data(), input.size());
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(rng.bits());
    fuzz_frame(input.data(), input.size());
  }
}

launch::Note note(Rng& rng) {
  switch (rng.below(5)) {
    case 0:
      return launch::StartNote{rng.below(2) == 0,
                               std::string(rng.below(9), 'a'),
                               std::vector<std::string>(rng.below(3), "v"),
                               {static_cast<int64_t>(rng.below(9)), 2.5, 3}};
    case 1:
      return launch::StepNote{static_cast<int64_t>(rng.below(9)), 1, {}};
    case 2:
      return launch::EvaluationNote{1, 2, std::string(rng.below(9), 'b'), {}};
    case 3:
      return launch::CheckpointNote{
          3, 1, 2, {{"m", std::vector<float>(rng.below(9))}}, {{"p", {7}}}};
    default:
      return launch::StopAtNote{static_cast<int64_t>(rng.below(9))};
  }
}

TEST(NoteFuzz, TargetSurvivesDamagedNotesAndNoise) {
  Rng rng(5, 1);
  for (int round = 0; round < 5000; ++round) {
    Bytes input = launch::encode_note(note(rng));
    damage(input, rng);
    fuzz_note(input.data(), input.size());
    for (size_t i = 1; i < input.size(); ++i) input[i] = static_cast<uint8_t>(rng.bits());
    fuzz_note(input.data(), input.size());
  }
}

}  // namespace
}  // namespace thinwire::transport
