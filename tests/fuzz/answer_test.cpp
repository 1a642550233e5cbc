// Runs the fuzz targets of answers and summaries briefly: on valid ones, damaged ones, and noise.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "target.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/rng.h"
#include "thinwire/events/summary.h"

namespace thinwire {
namespace {

using Target = int (*)(const uint8_t*, size_t);

void damage(Bytes& input, Rng& rng) {
  for (uint64_t i = 0; i < 1 + rng.below(4) && !input.empty(); ++i) {
    input[rng.below(input.size())] = static_cast<uint8_t>(rng.bits());
  }
  if (rng.below(4) == 0) input.resize(rng.below(input.size() + 1));
}

void run(Target target, const std::vector<Bytes>& valid) {
  Rng rng(6, 1);
  for (const Bytes& input : valid) target(input.data(), input.size());
  for (int round = 0; round < 5000; ++round) {
    Bytes input = valid[rng.below(valid.size())];
    damage(input, rng);
    target(input.data(), input.size());
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(rng.bits());
    target(input.data(), input.size());
  }
}

Bytes input_of(uint8_t kind, std::string_view text) {
  Bytes input = {kind};
  ByteWriter(input).put_bytes(as_bytes(text));
  return input;
}

TEST(AnswerFuzz, TargetSurvivesDamagedAnswersAndNoise) {
  constexpr std::string_view kInfo =
      R"({"type":"io.nats.jetstream.api.v1.stream_info_response","state":{"last_seq":7}})";
  constexpr std::string_view kNoLeader =
      R"({"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}})";
  constexpr std::string_view kElected =
      R"({"type":"io.nats.jetstream.advisory.v1.stream_leader_elected","stream":"run-blobs"})";
  const std::string record(
      "\0\1\16run-log-ledger\1\2"
      "12\11run.kept.x",
      30);
  run(fuzz_answer,
      {input_of(0, kInfo), input_of(0, kNoLeader), input_of(1, kInfo), input_of(1, kNoLeader),
       input_of(1, R"({"error":{"err_code":10058,"description":"name already in use"}})"),
       input_of(2, kNoLeader), input_of(2, kElected), input_of(3, record),
       input_of(3, std::string_view("\1\3"
                                    "404\0\0\13_INBOX.me.1",
                                    18))});
}

TEST(SummaryFuzz, TargetSurvivesDamagedSummariesAndNoise) {
  events::Summary summary;
  summary.name = "run";
  summary.method = "distro";
  summary.train_loss = std::numeric_limits<double>::quiet_NaN();
  summary.val_loss = {{"validation", 2.5}};
  summary.scores = {{"task.acc", 0.5}};
  summary.digest = "0123456789abcdef";
  const std::string text = print_summary(summary);
  run(fuzz_summary, {{text.begin(), text.end()}});
}

}  // namespace
}  // namespace thinwire
