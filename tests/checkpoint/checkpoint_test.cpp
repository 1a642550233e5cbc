#include "thinwire/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <numeric>
#include <thread>

#include "tests/errors.h"
#include "tests/file_size_limit.h"
#include "thinwire/base/error.h"

namespace thinwire::checkpoint {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using tests::error_of;
using tests::kNoError;

std::string open_error(const fs::path& folder) {
  return error_of([&] { const CheckpointReader reader(folder); });
}

// Does not wait for the disk, unlike write_file and truncation of an existing file.
void overwrite(const fs::path& path, std::string_view bytes) {
  fs::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

// A folder of checkpoints and a little state to fill them with.
class Checkpoint : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::path(testing::TempDir()) / fmt::format("checkpoint_{}", test->name());
    fs::remove_all(dir_);
    std::iota(params_.tensor(0).begin(), params_.tensor(0).end(), 1.5f);
    std::iota(params_.tensor(1).begin(), params_.tensor(1).end(), -2.0f);
  }
  void TearDown() override { fs::remove_all(dir_); }

  void fill(CheckpointWriter& writer) const {
    writer.write_weights(params_);
    writer.write_consensus(std::vector<NamedValues>{{"adamw.m", moments_}, {"none", {}}});
    writer.write_worker(0, std::vector<NamedValues>{{"delta", delta0_}});
    writer.write_worker(1, std::vector<NamedValues>{{"delta", delta1_}},
                        std::vector<NamedBytes>{{"payload", payload1_}});
    writer.add_text(kRecipeFile, "[run]\nname = 'x'\n");
  }
  CheckpointMeta meta(uint64_t step) const {
    return {.step = step,
            .tokens = step * 100,
            .run = 0xabcdef0123456789,
            .method = "distro",
            .workers = 2};
  }
  fs::path save(uint64_t step, int64_t keep = 2) const {
    CheckpointWriter writer(dir_, step);
    fill(writer);
    writer.commit(meta(step), keep);
    return dir_ / checkpoint_name(step);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(dir_)) found.push_back(entry.path().filename());
    return found;
  }

  fs::path dir_;
  tensor::Layout layout_{{{"model.embed_tokens.weight", {3, 5}, TensorRole::kEmbedding, -1},
                          {"model.norm.weight", {5}, TensorRole::kNorm, -1}}};
  tensor::Arena params_{layout_};
  std::vector<float> moments_ = {0.25f, -0.5f, 1e-30f};
  std::vector<float> delta0_ = {1, 2, 3, 4};
  std::vector<float> delta1_ = {5, 6, 7, 8};
  Bytes payload1_ = {'T', 'W', 'P', 'L', 0, 255};  // in flight; its content does not matter
};

TEST_F(Checkpoint, RoundTripGivesBackEverything) {
  const CheckpointReader reader(save(7));
  EXPECT_EQ(reader.meta().step, 7u);
  EXPECT_EQ(reader.meta().tokens, 700u);
  EXPECT_EQ(reader.meta().run, 0xabcdef0123456789u);
  EXPECT_EQ(reader.meta().numerics_version, kNumericsVersion);
  EXPECT_EQ(reader.meta().method, "distro");
  EXPECT_EQ(reader.meta().workers, 2);
  EXPECT_EQ(reader.recipe_text(), "[run]\nname = 'x'\n");

  tensor::Arena params(layout_);
  reader.read_weights(params);
  EXPECT_TRUE(std::equal(params.all().begin(), params.all().end(), params_.all().begin()));
  EXPECT_THAT(reader.consensus_names(), UnorderedElementsAre("adamw.m", "none"));
  EXPECT_THAT(reader.worker_names(1), ElementsAre("delta"));
  std::vector<float> moments(3);
  reader.read_consensus("adamw.m", moments);
  EXPECT_EQ(moments, moments_);
  std::vector<float> delta(4);
  reader.read_worker(1, "delta", delta);
  EXPECT_EQ(delta, delta1_);
  reader.read_worker(0, "delta", delta);
  EXPECT_EQ(delta, delta0_);
  EXPECT_EQ(reader.read_worker_bytes(1, "payload"), payload1_);
  EXPECT_THAT(reader.read_worker_bytes(0, "payload"), IsEmpty());
}

TEST_F(Checkpoint, EqualContentHasEqualDigestAndOtherContentAnother) {
  const uint64_t first = CheckpointReader(save(7)).digest();
  EXPECT_EQ(CheckpointReader(save(7)).digest(), first);
  delta1_[2] = 7.0000005f;
  EXPECT_NE(CheckpointReader(save(7)).digest(), first);
}

TEST_F(Checkpoint, WorkersWriteTheirOwnStateAtTheSameTime) {
  constexpr int kWorkers = 8;
  CheckpointWriter writer(dir_, 1);
  std::vector<std::vector<float>> states;
  for (int worker = 0; worker < kWorkers; ++worker) {
    states.emplace_back(10'000, static_cast<float>(worker));
  }
  std::vector<std::thread> threads;
  for (int worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([&, worker] {
      writer.write_worker(worker,
                          std::vector<NamedValues>{{"s", states[static_cast<size_t>(worker)]}});
    });
  }
  for (auto& thread : threads) thread.join();
  CheckpointMeta all = meta(1);
  all.workers = kWorkers;
  writer.commit(all, 1);
  const CheckpointReader reader(dir_ / checkpoint_name(1));
  for (int worker = 0; worker < kWorkers; ++worker) {
    std::vector<float> state(10'000);
    reader.read_worker(worker, "s", state);
    EXPECT_EQ(state, states[static_cast<size_t>(worker)]) << worker;
  }
}

TEST_F(Checkpoint, KeepsTheNewest) {
  for (const uint64_t step : {1, 2, 9, 10, 100}) save(step, 3);
  EXPECT_THAT(names(), UnorderedElementsAre("step-00000009", "step-00000010", "step-00000100"));
  EXPECT_EQ(newest_checkpoint(dir_), dir_ / "step-00000100");
  save(101, 0);
  EXPECT_THAT(names(), testing::SizeIs(4));
}

TEST_F(Checkpoint, NewestCountsStepsAsNumbers) {
  save(99'999'999, 0);
  save(100'000'000, 0);
  EXPECT_EQ(newest_checkpoint(dir_), dir_ / "step-100000000");
}

TEST_F(Checkpoint, SameStepIsReplaced) {
  save(5);
  delta0_[0] = 42;
  std::vector<float> delta(4);
  CheckpointReader(save(5)).read_worker(0, "delta", delta);
  EXPECT_EQ(delta, delta0_);
  EXPECT_THAT(names(), ElementsAre("step-00000005"));
}

TEST_F(Checkpoint, WithoutCommitNothingRemains) {
  {
    CheckpointWriter writer(dir_, 3);
    fill(writer);
    EXPECT_TRUE(fs::exists(dir_ / "step-00000003.partial"));
    EXPECT_EQ(newest_checkpoint(dir_), std::nullopt);
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(Checkpoint, InterruptedOnesAreIgnoredAndCleanedByTheNextWriter) {
  const fs::path complete = save(1);
  fs::copy(complete, dir_ / "step-00000002.partial");
  fs::copy(complete, dir_ / "step-00000001.removed.partial");
  fs::create_directories(dir_ / "step-00000003");  // no checkpoint.json
  EXPECT_EQ(newest_checkpoint(dir_), complete);
  save(4);
  EXPECT_THAT(names(), UnorderedElementsAre("step-00000001", "step-00000003", "step-00000004"));
}

TEST_F(Checkpoint, TwoStepsMayBeUnderWayAtOnce) {
  CheckpointWriter first(dir_, 1);
  fill(first);
  CheckpointWriter second(dir_, 2);
  fill(second);
  first.commit(meta(1), 2);
  second.commit(meta(2), 2);
  EXPECT_THAT(names(), UnorderedElementsAre("step-00000001", "step-00000002"));
  EXPECT_EQ(CheckpointReader(dir_ / "step-00000001").meta().step, 1u);
}

TEST_F(Checkpoint, CommitWithoutAWorkersStateIsAnError) {
  CheckpointWriter writer(dir_, 1);
  fill(writer);
  CheckpointMeta three = meta(1);
  three.workers = 3;
  EXPECT_THAT(error_of([&] { writer.commit(three, 1); }), HasSubstr("worker-0002.safetensors"));
}

TEST_F(Checkpoint, KeepsStateInItsType) {
  const Bytes codes = {1, 2, 3, 255, 0}, halves = {0x80, 0x3f, 0, 0xc0};
  {
    CheckpointWriter writer(dir_, 3);
    writer.write_weights(params_);
    writer.write_consensus(std::vector<NamedValues>{
        {"codes", DType::kU8, codes}, {"m", moments_}, {"halves", DType::kBf16, halves}});
    for (const int worker : {0, 1}) writer.write_worker(worker, {});
    writer.commit(meta(3), 2);
  }
  const CheckpointReader reader(dir_ / checkpoint_name(3));
  Bytes read_codes(5), read_halves(4);
  std::vector<float> m(3);
  const auto read = [&](const char* name, DType dtype, Bytes& to) {
    reader.read_consensus(StateTensor(name, dtype, to, Agreement::kConsensus));
  };
  read("codes", DType::kU8, read_codes);
  read("halves", DType::kBf16, read_halves);
  reader.read_consensus("m", m);
  EXPECT_EQ(read_codes, codes);
  EXPECT_EQ(read_halves, halves);
  EXPECT_EQ(m, moments_);
  EXPECT_THAT(error_of([&] { read("codes", DType::kBf16, read_halves); }),
              HasSubstr("tensor codes has dtype U8, BF16 expected"));
  EXPECT_THAT(error_of([&] { read("codes", DType::kU8, read_halves); }),
              HasSubstr("tensor codes has 5 values, 4 expected"));
}

TEST_F(Checkpoint, MissingFolderFileOrStateIsNamed) {
  EXPECT_EQ(newest_checkpoint(dir_ / "absent"), std::nullopt);
  EXPECT_THAT(open_error(dir_ / "absent"), HasSubstr("is not a checkpoint"));
  const fs::path folder = save(1);
  {
    const CheckpointReader reader(folder);
    std::vector<float> four(4);
    EXPECT_THAT(error_of([&] { reader.read_worker(2, "delta", four); }),
                AllOf(HasSubstr(folder.string()), HasSubstr("worker-0002")));
    EXPECT_THAT(error_of([&] { reader.read_worker(1, "gamma", four); }), HasSubstr("gamma"));
    EXPECT_THAT(error_of([&] { reader.read_consensus("adamw.m", four); }),
                AllOf(HasSubstr("3 values"), HasSubstr("4 expected")));
  }
  fs::remove(folder / "worker-0001.safetensors");
  EXPECT_THAT(open_error(folder), HasSubstr("worker-0001.safetensors is missing"));
}

TEST_F(Checkpoint, WeightsOfAnotherModelAreRefusedByName) {
  const CheckpointReader reader(save(1));
  const tensor::Layout other({{"model.embed_tokens.weight", {3, 6}, TensorRole::kEmbedding, -1},
                              {"lm_head.weight", {3, 6}, TensorRole::kHead, -1}});
  tensor::Arena params(other);
  EXPECT_THAT(error_of([&] { reader.read_weights(params); }),
              AllOf(HasSubstr("missing: lm_head.weight"),
                    HasSubstr("model.embed_tokens.weight [3, 5] instead of [3, 6]"),
                    HasSubstr("not part of the model: model.norm.weight")));
}

TEST_F(Checkpoint, EveryTruncationOfEveryFileIsNoticed) {
  const fs::path folder = save(1);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string whole = read_text_file(entry.path());
    for (size_t size = 0; size < whole.size(); ++size) {
      overwrite(entry.path(), std::string_view(whole).substr(0, size));
      EXPECT_THAT(open_error(folder), AllOf(HasSubstr(entry.path().filename().string()),
                                            AnyOf(HasSubstr("truncated"), HasSubstr("altered"))))
          << size;
    }
    overwrite(entry.path(), whole);
  }
  EXPECT_EQ(open_error(folder), kNoError);
}

TEST_F(Checkpoint, EveryFlippedByteOfEveryFileIsNoticed) {
  const fs::path folder = save(1);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string whole = read_text_file(entry.path());
    for (size_t at = 0; at < whole.size(); ++at) {
      for (const int mask : {0x01, 0x20, 0xff}) {
        std::string altered = whole;
        altered[at] = static_cast<char>(altered[at] ^ mask);
        overwrite(entry.path(), altered);
        EXPECT_NE(open_error(folder), kNoError) << entry.path() << " byte " << at;
      }
    }
    overwrite(entry.path(), whole);
  }
  EXPECT_EQ(open_error(folder), kNoError);
}

TEST_F(Checkpoint, ErrorsSayWhatHappenedToAFile) {
  const fs::path folder = save(1);
  const fs::path weights = folder / "weights.safetensors";
  const std::string whole = read_text_file(weights);
  overwrite(weights, whole.substr(0, whole.size() - 4));
  EXPECT_THAT(open_error(folder), AllOf(HasSubstr(weights.string()), HasSubstr("was truncated")));
  overwrite(weights, whole + "more");
  EXPECT_THAT(open_error(folder), AllOf(HasSubstr(weights.string()), HasSubstr("was altered")));
  std::string flipped = whole;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  overwrite(weights, flipped);
  EXPECT_THAT(open_error(folder), AllOf(HasSubstr(weights.string()), HasSubstr("was altered")));
}

TEST_F(Checkpoint, MetaFilesOfOtherFormatsAreRefused) {
  const fs::path folder = save(1);
  const fs::path meta_file = folder / "checkpoint.json";
  const std::string whole = read_text_file(meta_file);
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    overwrite(meta_file, text);
    return open_error(folder);
  };
  overwrite(meta_file, R"({"model_type": "llama"})");
  EXPECT_THAT(open_error(folder), HasSubstr("is not a Thinwire checkpoint"));
  overwrite(meta_file, std::string(5'000'000, ' '));
  EXPECT_THAT(open_error(folder), HasSubstr("is not a Thinwire checkpoint"));
  overwrite(meta_file, "[");
  EXPECT_THAT(open_error(folder), HasSubstr("not JSON"));
  overwrite(meta_file, std::string(100'000, '['));
  EXPECT_THAT(open_error(folder), HasSubstr("nested more than 500 levels deep"));
  EXPECT_THAT(with(R"("version": 1)", R"("version": 3)"), HasSubstr("reads versions 1 and 2"));
  EXPECT_THAT(with("\"recipe.toml\"", "\"../recipe.toml\""), HasSubstr("holds a path"));
  EXPECT_THAT(with("\"tokens\": 100", "\"tokens\": -1"), HasSubstr("tokens is not a count"));
  EXPECT_THAT(with("\"tokens\": 100", "\"tokens\": 101"), HasSubstr("digest"));
  EXPECT_THAT(with("\"tokens\": 100,", ""), HasSubstr("tokens is missing"));
}

TEST_F(Checkpoint, SaysWhichDataItWasTrainedOn) {
  {
    CheckpointWriter writer(dir_, 3);
    fill(writer);
    CheckpointMeta known = meta(3);
    known.data = {{"train", 7}, {"validation", UINT64_MAX}};
    known.ended_at = 2;
    writer.commit(known, 0);
  }
  const CheckpointReader reader(dir_ / checkpoint_name(3));
  EXPECT_EQ(reader.meta().data.at("train"), 7u);
  EXPECT_EQ(reader.meta().data.at("validation"), UINT64_MAX);
  EXPECT_EQ(reader.meta().ended_at, 2u);
  EXPECT_TRUE(CheckpointReader(save(4)).meta().data.empty());
}

TEST_F(Checkpoint, FullDiskLeavesThePreviousOneUsable) {
  const fs::path previous = save(1, 1);
  const std::vector<float> large(100'000);
  std::string error;
  {
    const tests::FileSizeLimit full_disk(50'000);
    error = error_of([&] {
      CheckpointWriter writer(dir_, 2);
      fill(writer);
      writer.write_worker(2, std::vector<NamedValues>{{"delta", large}});
      writer.commit(meta(2), 1);
    });
  }
  EXPECT_THAT(error, AllOf(HasSubstr("cannot write"), HasSubstr("worker-0002.safetensors")));
  EXPECT_THAT(names(), ElementsAre("step-00000001"));
  EXPECT_EQ(newest_checkpoint(dir_), previous);
  EXPECT_EQ(open_error(previous), kNoError);
}

TEST_F(Checkpoint, FolderOfItsOwnMustBeNew) {
  const fs::path folder = dir_ / "imported";
  {
    CheckpointWriter writer(folder / "");  // a trailing slash changes nothing
    writer.write_weights(params_);
    writer.commit({}, 0);
  }
  EXPECT_EQ(CheckpointReader(folder).meta().workers, 0);
  EXPECT_THAT(names(), ElementsAre("imported"));
  EXPECT_THAT(error_of([&] { const CheckpointWriter writer(folder); }),
              HasSubstr("exists already; choose another folder"));
}

}  // namespace
}  // namespace thinwire::checkpoint
