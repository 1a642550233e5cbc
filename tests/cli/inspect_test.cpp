#include "thinwire/cli/inspect/inspect.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "thinwire/base/error.h"
#include "thinwire/codec/payload.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/shard.h"
#include "thinwire/events/run_log.h"
#include "thinwire/events/summary.h"
#include "thinwire/events/tensorboard.h"
#include "thinwire/method/registry.h"
#include "thinwire/report/table.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class InspectTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / "inspect" / test->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  std::string error_of(const fs::path& path) const {
    try {
      describe_path(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  void write_log() const {
    events::RunLog log(folder_ / "events.jsonl");
    for (int64_t step = 1; step <= 9; ++step) {
      events::StepEvent event;
      event.step = step;
      event.loss = 10.0 - static_cast<double>(step);
      event.seconds = {{"compute", 0.25}};
      log.write(event);
    }
    log.write(events::EvalEvent{5, "validation", 6});
    log.write(events::EvalEvent{9, "validation", 2.5});
    log.write(events::MessageEvent{9, "the end"});
  }

  fs::path folder_;
};

TEST_F(InspectTest, ShowsTheLastStepsOfALog) {
  write_log();
  const std::string text = describe_path(folder_ / "events.jsonl");
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("9 steps (1 to 9), 2 evaluations, 1 message\n"), HasSubstr("1.0000"),
            HasSubstr("compute 250 ms"), Not(HasSubstr("9.0000")),
            HasSubstr("validation loss 2.5000 after step 9\n"), HasSubstr("step 9: the end\n")));
}

TEST_F(InspectTest, ShowsARunFolder) {
  config::Recipe recipe = method::load_recipe("", {});
  recipe.run.name = "first";
  write_file(folder_ / "recipe.toml", config::print_recipe(recipe));
  EXPECT_THAT(describe_path(folder_),
              AllOf(HasSubstr("run first: allreduce with 1 worker,"), HasSubstr("not finished"),
                    HasSubstr("checkpoints: none")));
  write_log();
  fs::create_directories(folder_ / "checkpoints/step-00000009");
  write_file(folder_ / "checkpoints/step-00000009/checkpoint.json", "{}");
  events::Summary summary;
  summary.digest = "00112233445566ff";
  summary.method = "diloco";
  summary.within = "allreduce";
  summary.train_loss = 4.5;
  summary.train_loss_steps = 50;
  summary.val_loss["kjv"] = 5.5;
  events::write_summary(folder_ / "summary.json", summary);
  EXPECT_THAT(describe_path(folder_),
              AllOf(HasSubstr(", finished\n"), HasSubstr("checkpoints: step-00000009\n"),
                    HasSubstr("9 steps"), HasSubstr("kjv loss          5.5000\n"),
                    HasSubstr("training loss     4.5000, mean of the last 50 steps\n"),
                    HasSubstr("method            diloco (within: allreduce), 0 workers\n"),
                    HasSubstr("00112233445566ff")));
}

TEST_F(InspectTest, ABrokenTextFileIsRefusedWithTheReason) {
  write_file(folder_ / "a.json", "{\"a\": 1,\n");
  EXPECT_THAT(error_of(folder_ / "a.json"), HasSubstr("a.json is damaged: its JSON does not end"));
  write_file(folder_ / "a.json", "{\n\"a\" 1}\n");
  EXPECT_THAT(error_of(folder_ / "a.json"), HasSubstr("it is not JSON from line 2 on"));
  write_file(folder_ / "a.json", "[1, 2]");
  EXPECT_EQ(describe_path(folder_ / "a.json"), "[1, 2]");
  write_file(folder_ / "a.toml", "[train]\nsteps 3\n");
  EXPECT_THAT(error_of(folder_ / "a.toml"), HasSubstr("a.toml:2: "));
}

TEST_F(InspectTest, ALinkToNothingIsNamedAsOne) {
  fs::create_symlink("gone", folder_ / "link.toml");
  EXPECT_THAT(error_of(folder_ / "link.toml"),
              HasSubstr("link.toml: it is a link to gone, which does not exist"));
}

TEST_F(InspectTest, ShowsATensorBoardFile) {
  fs::path file;
  {
    events::TensorBoardWriter writer(folder_);
    writer.scalar("train/loss", 1, 3.5);
    writer.scalar("train/loss", 2, 3.25);
    file = writer.path();
  }
  EXPECT_THAT(describe_path(file), AllOf(HasSubstr("brain.Event:2, 2 values\n"),
                                         HasSubstr("train/loss       2          2        3.25\n")));
}

TEST_F(InspectTest, ShowsTheTensorsOfASafetensorsFile) {
  const fs::path file = folder_ / "a.safetensors";
  tensor::SafetensorsWriter writer(file, {{"norm", {4}}, {"matrix", {2, 3}}}, DType::kBf16,
                                   {{"format", "pt"}});
  writer.write(std::vector<float>(10, 1.0F));
  writer.commit();
  EXPECT_THAT(describe_path(file), AllOf(HasSubstr("2 tensors, 10 values\nformat: pt\n"),
                                         HasSubstr("matrix  bf16  2 x 3       6\n")));
}

TEST_F(InspectTest, ShowsAnAdaptersFolderAndItsUse) {
  write_file(folder_ / "adapter_config.json", "{\"peft_type\": \"LORA\"}\n");
  tensor::SafetensorsWriter writer(folder_ / "adapter_model.safetensors", {{"lora_A", {2, 3}}},
                                   DType::kF32, {});
  writer.write(std::vector<float>(6, 1.0F));
  writer.commit();
  EXPECT_THAT(describe_path(folder_),
              AllOf(HasSubstr("PEFT folder"), HasSubstr("`thinwire generate " + folder_.string()),
                    HasSubstr("adapter_config.json:\n{\"peft_type\": \"LORA\"}"),
                    HasSubstr("adapter_model.safetensors: 1 tensor, 6 values")));
}

TEST_F(InspectTest, ShowsAMailboxAndItsUse) {
  for (const char* below : {"first/first/records/ledger", "first/m1/blobs", "first/m2", "other"}) {
    fs::create_directories(folder_ / below);
  }
  EXPECT_THAT(describe_path(folder_),
              AllOf(HasSubstr("mailbox, "), HasSubstr("`thinwire join " + folder_.string()),
                    HasSubstr("run first: 2 participants: m1, m2\n"), Not(HasSubstr("other"))));
}

TEST_F(InspectTest, NamesTheRunOfAFolderThatIsAPartOfIt) {
  write_file(folder_ / "recipe.toml", "");
  fs::create_directories(folder_ / "member");
  EXPECT_THAT(error_of(folder_ / "member"),
              HasSubstr("is a part of the run folder " + folder_.string()));
  EXPECT_THAT(error_of(folder_ / "member/"), HasSubstr("`thinwire inspect " + folder_.string()));
}

TEST_F(InspectTest, ShowsAPayloadAndSaysWhenItIsDamaged) {
  const fs::path file = folder_ / "payload";
  Bytes payload;
  codec::begin_payload({codec::PayloadMethod::kDistro, 0xabc, 1, 2, 3}, payload);
  payload.resize(payload.size() + 100);
  codec::seal_payload(payload);
  const auto text = [&] {
    return std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
  };
  write_file(file, text());
  EXPECT_THAT(describe_path(file),
              HasSubstr("run 0000000000000abc, epoch 1, round 3, sender 2: 100 B"));
  payload.back() ^= 1;
  write_file(file, text());
  EXPECT_THAT(error_of(file), HasSubstr("its checksum does not match"));
  write_file(file, "TWPL");
  EXPECT_THAT(error_of(file), HasSubstr("shorter than a header"));
}

TEST_F(InspectTest, ShowsAShard) {
  const fs::path file = folder_ / "00000.tws";
  data::ShardWriter writer(file, 7, 300);
  writer.add_document(std::vector<int32_t>{1, 2, 299});
  writer.commit();
  EXPECT_THAT(describe_path(file), HasSubstr("299"));
}

TEST_F(InspectTest, ShowsAVocabulary) {
  config::DataSection data;
  std::string text;
  for (int line = 0; line < 300; ++line) text += fmt::format("thin wires carry {} words\n\n", line);
  write_file(folder_ / "text.txt", text);
  data.text = {(folder_ / "text.txt").string()};
  data.dir = folder_ / "tokens";
  data.vocabulary_size = 290;
  data::prepare(data, {});
  EXPECT_THAT(describe_path(folder_ / "tokens/vocabulary.model"),
              AllOf(HasSubstr("kind          SentencePiece\npieces        290\n"),
                    HasSubstr("end           2 </s>\n"), HasSubstr("for example   ")));
}

TEST_F(InspectTest, ShowsASweepsResults) {
  const fs::path file = folder_ / "results.csv";
  report::Table table{{{"optim.lr"}, {"state"}}, {{"0.001", "done"}, {"a \"b\",\nc", "failed"}}};
  write_file(file, table.csv());
  EXPECT_EQ(describe_path(file), "2 rows of 2 columns: optim.lr, state\n");
  EXPECT_EQ(describe_path(folder_), describe_path(file));
  write_file(file, "a,b\n1\n");
  EXPECT_THAT(error_of(file), HasSubstr("results.csv is damaged: its row 1 has 1 cell, not 2"));
}

TEST_F(InspectTest, ListsWhatIsKnownForAnythingElse) {
  const fs::path file = folder_ / "letter.doc";
  write_file(file, "Dear Sir");
  EXPECT_THAT(error_of(file), AllOf(HasSubstr(file.string() + ": not a Thinwire file"),
                                    HasSubstr("a checkpoint"), HasSubstr("a shard (.tws)")));
  EXPECT_THAT(error_of(folder_), HasSubstr("not a Thinwire folder; expected a run folder"));
  EXPECT_THAT(error_of(folder_ / "none"), HasSubstr("there is no such file"));
}

}  // namespace
}  // namespace thinwire::cli
