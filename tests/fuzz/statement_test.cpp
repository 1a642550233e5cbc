// Runs the fuzz targets of statements and snapshots briefly: on valid ones, damaged ones, and
// noise.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "target.h"
#include "tests/paths.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/rng.h"
#include "thinwire/member/snapshot.h"
#include "thinwire/membership/message_codec.h"

namespace thinwire::membership {
namespace {

class ZeroSigner final : public Signer {
 public:
  PublicKey key() const override { return {}; }
  Signature sign(std::span<const uint8_t>) const override { return {}; }
};

void damage(Bytes& input, Rng& rng) {
  for (uint64_t i = 0; i < rng.below(6) && !input.empty(); ++i) {
    input[rng.below(input.size())] = static_cast<uint8_t>(rng.bits());
  }
  if (rng.below(4) == 0) input.resize(rng.below(input.size() + 1));
}

Bytes statement(Rng& rng) {
  const std::vector<Message> messages = {JoinRequest{{}, Position{3, {}}, 2.5},
                                         Report{1, Position{3, {}}, AgreedDigest{2, 9}},
                                         Offer{1, 4, 0, 2, {}, 100, {0.5}},
                                         LeaveNotice{1},
                                         SnapshotReady{{1, 8, {}, 100}, {2, 9}, {}},
                                         Supply{1, {{1, 2}, {3}}},
                                         Misconduct{1, "bad"},
                                         AskRecords{1, 5},
                                         AskSnapshot{1},
                                         Refuse{{}, "no"},
                                         Lacking{},
                                         Loss{1, 7, "set", 2.5, 100},
                                         Announcement{{1, 4, 0, 2, {}, 100, {0.5}}},
                                         Sum{4, 2, {}, WireType::kInt2, 0.5f, {}, 100},
                                         Audit{1, 4, 2, 0.5, 0.25},
                                         Waiting{"members"}};
  return encode_statement({rng.bits(), {}, rng.bits(), messages[rng.below(messages.size())]},
                          ZeroSigner());
}

TEST(StatementFuzz, TargetSurvivesDamagedStatementsAndNoise) {
  Rng rng(8, 1);
  for (int round = 0; round < 5000; ++round) {
    Bytes input = statement(rng);
    fuzz_statement(input.data(), input.size());
    damage(input, rng);
    fuzz_statement(input.data(), input.size());
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(rng.bits());
    fuzz_statement(input.data(), input.size());
  }
}

constexpr size_t kSnapshotHeader = 6;  // TWSN and a version

// The files of a snapshot.
std::vector<std::string> files_of(const Bytes& snapshot) {
  std::vector<std::string> files;
  ByteReader reader{std::span(snapshot).subspan(kSnapshotHeader)};
  while (reader.remaining() > 0) {
    const auto file = reader.get_bytes(reader.get<uint64_t>());
    files.emplace_back(file.begin(), file.end());
  }
  return files;
}

// A snapshot of these files, of which the first, checkpoint.json, is made to fit the others: so
// would somebody who sends others what they are not to read.
Bytes hostile_snapshot(std::vector<std::string> files, const Bytes& like) {
  auto meta = nlohmann::ordered_json::parse(files[0]);
  size_t number = 0;
  for (const char* name : {"weights.safetensors", "consensus.safetensors"}) {
    const std::string& file = files[++number];
    meta["files"][name]["bytes"] = file.size();
    meta["files"][name]["hash"] = to_hex(hash_bytes(as_bytes(file)));
  }
  meta.erase("digest");
  meta["digest"] = to_hex(hash_bytes(as_bytes(meta.dump())));
  files[0] = meta.dump(2) + "\n";
  Bytes bytes(like.begin(), like.begin() + kSnapshotHeader);
  ByteWriter writer(bytes);
  for (const std::string& file : files) {
    writer.put(static_cast<uint64_t>(file.size()));
    writer.put_bytes(as_bytes(file));
  }
  return bytes;
}

Bytes valid_snapshot() {
  const tensor::Layout layout({{"a.weight", {3, 5}}, {"b.weight", {2}}});
  const tensor::Arena weights(layout);
  const std::vector<float> values = {1.5f, -2.0f, 0.0f};
  const std::vector<NamedValues> parts = {{"state", values}};
  return member::make_snapshot(3, 4, weights, parts, tests::memory_folder() / "snapshot_fuzz.made");
}

TEST(SnapshotFuzz, TargetSurvivesSnapshotsWhoseHashesAreRight) {
  Rng rng(10, 1);
  const Bytes snapshot = valid_snapshot();
  const std::vector<std::string> files = files_of(snapshot);
  ASSERT_EQ(files.size(), 3u);
  ASSERT_EQ(hostile_snapshot(files, snapshot), snapshot);
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::string> damaged = files;
    std::string& file = damaged[1 + rng.below(2)];
    Bytes bytes(file.begin(), file.end());
    damage(bytes, rng);
    file.assign(bytes.begin(), bytes.end());
    const Bytes input = hostile_snapshot(std::move(damaged), snapshot);
    fuzz_snapshot(input.data(), input.size());
  }
}

TEST(SnapshotFuzz, TargetSurvivesDamagedSnapshotsAndNoise) {
  Rng rng(9, 1);
  const Bytes snapshot = valid_snapshot();
  EXPECT_EQ(fuzz_snapshot(snapshot.data(), snapshot.size()), 0);
  for (int round = 0; round < 300; ++round) {
    Bytes input = snapshot;
    damage(input, rng);
    fuzz_snapshot(input.data(), input.size());
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(rng.bits());
    fuzz_snapshot(input.data(), input.size());
  }
}

}  // namespace
}  // namespace thinwire::membership
