// train.init brings the model that is trained, not its weights alone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <regex>
#include <string>
#include <vector>

#include "tests/errors.h"
#include "tests/tiny_run.h"
#include "thinwire/base/file.h"
#include "thinwire/config/values.h"
#include "thinwire/convert/hf.h"
#include "thinwire/convert/load.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class InitialModel : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Trains a model unlike the defaults in shape and in what is computed with it.
  void train_first() {
    train(tiny_recipe(folder_, {"model.rope_theta=500", "model.norm_eps=0.01", "model.kv_heads=1",
                                "model.init_std=0.03"}),
          {});
  }
  // Prepares the text anew, with a vocabulary of pieces.
  config::DataSection prepare_pieces() const {
    config::DataSection data;
    data.dir = (folder_ / "tokens").string();
    data.text = {(folder_ / "text.txt").string()};
    data.document = config::DocumentEnd::kLine;
    data.vocabulary_size = 285;
    data::prepare(data, {.force = true, .threads = 1});
    return data;
  }
  // Begins with it, and says of the model what the overrides say.
  config::Recipe tuned(std::vector<std::string> overrides = {}) const {
    std::vector<std::string> all = {"data.dir=" + (folder_ / "tokens").string(),
                                    "run.dir=" + (folder_ / "tuned").string(),
                                    "train.init=" + (folder_ / "run").string(),
                                    "train.batch=4",
                                    "train.sequence=16",
                                    "train.steps=3",
                                    "log.tensorboard=false"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return method::load_recipe("", all);
  }

  fs::path folder_;
};

TEST_F(InitialModel, IsTakenWhereTheRecipeLeavesItOut) {
  train_first();
  train(tuned({"model.layers=2", "model.init_std=0.5"}), {});
  const config::Recipe first = convert::describe_model(folder_ / "run");
  const config::Recipe second = convert::describe_model(folder_ / "tuned");
  EXPECT_EQ(second.model.hidden, 32);
  EXPECT_EQ(second.model.vocab, 258);
  config::Fields ours, theirs;
  auto one = first.model, other = second.model;
  one.describe(ours);
  other.describe(theirs);
  for (size_t field = 0; field < ours.all().size(); ++field) {
    if (ours.all()[field].name == "init_std") continue;
    EXPECT_EQ(config::print_value(ours.all()[field]), config::print_value(theirs.all()[field]))
        << ours.all()[field].name;
  }
}

TEST_F(InitialModel, ContradictionsNameTheFieldAndBothValues) {
  train_first();
  const auto refusal = [&](const std::vector<std::string>& overrides) {
    return tests::error_of([&] { train(tuned(overrides), {}); });
  };
  EXPECT_THAT(refusal({"model.rope_theta=10000", "model.heads=4", "model.hidden=32"}),
              AllOf(HasSubstr("[train] init"), HasSubstr("rope_theta = 500"),
                    HasSubstr("(the recipe says 10000"), HasSubstr("heads = 2 (the recipe says 4)"),
                    HasSubstr("leave these fields out"), Not(HasSubstr("hidden"))));
  EXPECT_THAT(refusal({"model.norm_eps=1e-5"}), HasSubstr("norm_eps = 0.01"));
  // 0 asks for what follows from other fields, here the initial model's.
  EXPECT_EQ(refusal({"model.kv_heads=0", "model.intermediate=0", "model.vocab=0"}),
            tests::kNoError);
}

// A check of fields that the recipe leaves out waits for the model that has them.
TEST_F(InitialModel, ItsFieldsAreWhatTheRecipesAreCheckedWith) {
  train(tiny_recipe(folder_, {"model.hidden=36", "model.heads=9", "model.kv_heads=3"}), {});
  EXPECT_EQ(tests::error_of([&] { train(tuned({"model.kv_heads=3"}), {}); }), tests::kNoError);
}

TEST_F(InitialModel, IsNotNeededByARunThatGoesOn) {
  train_first();
  train(tuned({"checkpoint.every=1"}), {});
  fs::remove_all(folder_ / "run");
  const TrainResult result = train(tuned({"checkpoint.every=1", "train.steps=5"}), {});
  EXPECT_EQ(result.outcome, Outcome::kFinished);
  EXPECT_EQ(result.step, 5);
}

// The folder has the vocabulary as tokenizer.json too, which counts there.
TEST_F(InitialModel, AnExportHasTheTokensOfItsRun) {
  prepare_pieces();
  train_first();
  convert::export_hf(folder_ / "run", folder_ / "hf", DType::kF32);
  const TrainResult result = train(tuned({"train.init=" + (folder_ / "hf").string()}), {});
  EXPECT_EQ(result.outcome, Outcome::kFinished);
}

// Pieces that stand for the same text may still be put together otherwise.
TEST_F(InitialModel, AVocabularyThatCutsTextElsewhereIsAnother) {
  config::DataSection data = prepare_pieces();
  train_first();

  const fs::path file = folder_ / "other.model";
  const fs::path trained = folder_ / "tokens" / "vocabulary.model";
  std::string text;
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) {
      for (char c = 'a'; c <= 'z'; ++c) text += {' ', a, b, c};
    }
  }
  const auto ids = data::Vocabulary::load_file(trained)->encode(text);
  // A piece of two letters as it is written there: a tag, its length, the letters, and the tag of
  // its score, which is what merges go by. The first one that others can overtake is put last.
  const std::string model = read_text_file(trained);
  const std::regex piece("\n\x02[a-z]{2}\x15");
  const auto cuts_elsewhere = [&](const std::smatch& found) {
    std::string changed = model;
    const float last = -1e6;
    std::memcpy(&changed[static_cast<size_t>(found.position() + found.length())], &last,
                sizeof(last));
    write_file(file, changed);
    return data::Vocabulary::load_file(file)->encode(text) != ids;
  };
  const std::sregex_iterator begin(model.begin(), model.end(), piece), end;
  ASSERT_NE(std::find_if(begin, end, cuts_elsewhere), end);
  data.vocabulary_model = file.string();
  data::prepare(data, {.force = true, .threads = 1});
  EXPECT_THAT(tests::error_of([&] { train(tuned(), {}); }), HasSubstr("vocabulary_model = "));
}

TEST_F(InitialModel, AVocabularyWithAnotherPatternIsAnother) {
  const fs::path text = folder_ / "that.txt";
  std::string lines;
  for (const char* word : {"That", "Thin", "Then", "Thou", "Thank", "These", "Those", "Them"}) {
    lines += fmt::format("{0} {0} {0}\n{0} {0}\n", word);
  }
  write_file(text, lines);
  config::DataSection data;
  data.dir = (folder_ / "tokens").string();
  data.text = {text.string()};
  data.document = config::DocumentEnd::kLine;
  data.vocabulary = config::VocabularyKind::kByteBpe;
  data.vocabulary_size = 262;
  data.validation_fraction = 0.3;
  data::prepare(data, {.force = true, .threads = 1});
  train(tuned({"train.init=", "run.dir=" + (folder_ / "run").string(), "model.hidden=32",
               "model.layers=1", "model.heads=2"}),
        {});

  std::string tokenizer = read_text_file(folder_ / "tokens" / data::kTokenizerFile);
  const std::string any_case = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
  ASSERT_NE(tokenizer.find(any_case), std::string::npos);
  tokenizer.replace(tokenizer.find(any_case), any_case.size(), "'s|'t|'re|'ve|'m|'ll|'d");
  data.vocabulary_model = (folder_ / "other.json").string();
  write_file(data.vocabulary_model, tokenizer);
  data::prepare(data, {.force = true, .threads = 1});
  EXPECT_THAT(tests::error_of([&] { train(tuned(), {}); }), HasSubstr("stand for different text"));
}

}  // namespace
}  // namespace thinwire::launch
