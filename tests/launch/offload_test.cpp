// Runs whose weights and optimizer state are in files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/launch/copied_run.h"
#include "tests/paths.h"
#include "tests/tiny_run.h"
#include "thinwire/base/file.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

class OffloadedRun : public testing::Test {
 protected:
  OffloadedRun() : folder_(test_folder(tests::memory_folder())) { prepare_tiny_corpus(folder_); }
  ~OffloadedRun() override { fs::remove_all(folder_); }

  std::string digest_of(std::vector<std::string> fields) {
    const std::string dir = fmt::format("run.dir={}/{}", folder_.string(), ++runs_);
    fields.insert(fields.begin(), {"eval.rows=8", dir});
    return train(tiny_recipe(folder_, fields), {}).summary.digest;
  }

  void expect_same_bits(std::vector<std::string> fields) {
    const std::string in_memory = digest_of(fields);
    fields.emplace_back("train.offload=true");
    EXPECT_EQ(digest_of(fields), in_memory) << fmt::format("{}", fmt::join(fields, " "));
  }

  fs::path folder_;
  int runs_ = 0;
};

const std::vector<std::string> kThin = {
    "train.workers=1",    "train.update=layer", "optim.clip_by=previous",   "train.precision=bf16",
    "train.weights=bf16", "optim.state=8bit",   "optim.method=galore",      "galore.rank=8",
    "galore.refresh=4",   "optim.bases=8bit",   "optim.gradients=projected"};

TEST_F(OffloadedRun, HasTheBitsOfOneInMemory) {
  for (const char* workers : {"train.workers=1", "train.workers=4"}) {
    expect_same_bits({workers});
    expect_same_bits({workers, "train.update=layer", "optim.clip=0", "model.tied=true"});
    expect_same_bits({workers, "sync.method=diloco", "diloco.sync_every=5", "optim.method=muon"});
    expect_same_bits({workers, "sync.method=streaming", "streaming.fragment_layers=1",
                      "streaming.sync_every=6", "eval.every=5"});
    expect_same_bits({workers, "sync.method=diloco", "diloco.sync_every=4", "eval.every=3",
                      "diloco.overlap=eager", "diloco.error_feedback=true", "diloco.wire=fp4"});
    expect_same_bits({workers, "sync.method=sparseloco", "sparseloco.sync_every=4"});
    expect_same_bits({workers, "sync.method=distro", "train.precision=bf16"});
    expect_same_bits({workers, "adapter.kind=lora", "adapter.rank=4",
                      fmt::format("train.init={}/1", folder_.string())});
  }
  // A model that is read into the weights' place and format.
  expect_same_bits({"train.workers=1", "train.precision=bf16", "train.weights=bf16",
                    fmt::format("train.init={}/1", folder_.string())});
  expect_same_bits(kThin);
  std::vector<std::string> slabs = kThin;
  slabs.emplace_back("model.vocab_slabs=3");
  expect_same_bits(slabs);
  expect_same_bits({"train.workers=1", "adapter.kind=relora", "adapter.rank=4",
                    "relora.merge_every=5", "relora.rewarm=2"});
  expect_same_bits({"train.workers=1", "optim.method=natural_galore", "natural_galore.rank=4"});
  expect_same_bits({"train.workers=1", "optim.method=fira", "fira.rank=4"});
  expect_same_bits({"train.workers=1", "optim.method=apollo", "apollo.rank=4"});
  expect_same_bits({"train.workers=1", "optim.method=scale", "train.update=layer", "optim.clip=0"});
}

TEST_F(OffloadedRun, MayBeResumedInMemoryAndTheOtherWayRound) {
  for (const bool offloaded : {false, true}) {
    std::vector<std::string> fields = kThin;
    fields.insert(fields.end(), {"checkpoint.every=1", "checkpoint.keep=100"});
    std::vector<std::string> first = fields;
    first.push_back(fmt::format("train.offload={}", offloaded));
    const std::string whole = digest_of(first);
    const fs::path copy = folder_ / fmt::format("copy-{}", offloaded);
    copy_run(folder_ / std::to_string(runs_), copy, 5);
    fields.insert(fields.end(), {"run.dir=" + copy.string(), "eval.rows=8",
                                 fmt::format("train.offload={}", !offloaded)});
    EXPECT_EQ(train(tiny_recipe(folder_, fields), {}).summary.digest, whole);
  }
}

TEST_F(OffloadedRun, LeavesNothingBehindInTheFolder) {
  const fs::path files = folder_ / "files";
  std::vector<std::string> fields = kThin;
  fields.insert(fields.end(), {"train.offload=true", "train.offload_dir=" + files.string()});
  digest_of(fields);
  EXPECT_TRUE(fs::is_empty(files));
}

}  // namespace
}  // namespace thinwire::launch
