// Ranks of a site, on threads, compute what one model computes alone.
#include "thinwire/train/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/model/tiny_model.h"
#include "tests/tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/combinations.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/model/registry.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/train/pair_loss.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {
namespace {

using testing::HasSubstr;

config::Recipe recipe_with(std::vector<std::string> fields) {
  config::Recipe recipe = tiny_recipe({}, std::move(fields));
  recipe.model.vocab = 258;
  recipe.train.device = config::DeviceChoice::kCpu;
  recipe.train.precision = Precision::kFp32;
  return recipe;
}

class SiteTest : public testing::Test {
 protected:
  SiteTest() : SiteTest(recipe_with({"train.batch=16", "train.microbatch=2"})) {}
  explicit SiteTest(config::Recipe recipe, int ranks = 3)
      : recipe_(std::move(recipe)),
        layout_(method::tensors_of(recipe_)),
        params_(layout_, method::trained_format(recipe_), make_offload(recipe_)),
        frozen_(method::adapted_tensors(method::ModelSpec(recipe_), recipe_.adapter).frozen,
                recipe_.train.weights, params_.offload()),
        threads_(1),
        ranks_(transport::make_local_communicators(ranks)),
        failures_(static_cast<size_t>(ranks)) {
    fill_frozen(11);
    model_ = model::make_model({.model = method::ModelSpec(recipe_),
                                .precision = recipe_.train.precision,
                                .layout = layout_,
                                .params = params_,
                                .threads = threads_,
                                .max_rows = method::rows_per_pass(recipe_.train),
                                .sequence = recipe_.train.sequence,
                                .frozen = frozen(),
                                .adapter = recipe_.adapter});
    init(1);
    for (size_t rank = 1; rank < ranks_.size(); ++rank) {
      helpers_.emplace_back([this, rank] {
        try {
          help_site(*ranks_[rank]);
        } catch (const Error& error) {
          failures_[rank] = error.what();
        }
      });
    }
    site_ = std::make_unique<Site>(*ranks_.front());
    site_->begin(recipe_, frozen());
  }
  ~SiteTest() override { end(); }

  const tensor::Arena* frozen() const {
    return frozen_.layout.size() > 0 ? &frozen_.values : nullptr;
  }
  void fill_frozen(uint64_t seed) {
    for (size_t i = 0; i < frozen_.layout.size(); ++i) {
      frozen_.values.fill_tensor(i, [&](std::span<float> values) {
        Rng rng(seed, i);
        for (float& value : values) value = static_cast<float>(0.1 * rng.normal());
      });
    }
  }
  void init(uint64_t seed) {
    if (frozen() == nullptr) {
      model::init_parameters(params_, method::ModelSpec(recipe_), seed);
    } else {
      Rng rng(seed, 3);
      for (float& value : params_.all()) value = static_cast<float>(0.1 * rng.normal());
    }
    model_->refresh();
  }
  void end() {
    site_.reset();
    for (std::thread& helper : helpers_) helper.join();
    helpers_.clear();
  }

  StepRows rows(int64_t count, bool marked = false) {
    Rng rng(7, static_cast<uint64_t>(count));
    const int64_t sequence = recipe_.train.sequence;
    tokens_.assign(static_cast<size_t>(count * (sequence + 1)), 0);
    for (int32_t& token : tokens_) token = static_cast<int32_t>(rng.below(256));
    weights_.clear();
    begins_.clear();
    if (marked) {
      weights_.resize(static_cast<size_t>(count * sequence));
      begins_.resize(weights_.size());
      for (float& weight : weights_) weight = rng.below(3) > 0 ? 1 : 0;
      for (uint8_t& begin : begins_) begin = rng.below(8) == 0 ? 1 : 0;
    }
    StepRows all{tokens_, sequence, method::rows_per_pass(recipe_.train), {weights_, begins_}};
    all.counted_a_row = marked ? 5.5 : 0;
    return all;
  }

  void expect_the_same(const StepRows& step) { expect_the_same(step, step); }
  // `alone` and `shared` are the same rows; each has a loss of its own if they are pairs.
  void expect_the_same(const StepRows& step, const StepRows& shared) {
    tensor::Arena alone(layout_), together(layout_);
    tensor::WholeGradients sink(alone);
    const double loss = accumulate_gradients(*model_, step, sink);
    const double tolerance = recipe_.train.precision == Precision::kBf16 ? 1e-2 : 1e-5;
    EXPECT_NEAR(site_->gradients(*model_, params_, shared, together), loss, tolerance * loss);
    EXPECT_LT(model::relative_norm_of_error(together.all(), alone.all()), tolerance);
  }

  const config::Recipe recipe_;
  const tensor::Layout layout_;
  tensor::Arena params_;
  FrozenWeights frozen_;
  ThreadPool threads_;
  std::unique_ptr<model::Model> model_;
  std::vector<std::unique_ptr<transport::Communicator>> ranks_;
  std::vector<std::thread> helpers_;
  std::vector<std::string> failures_;
  std::unique_ptr<Site> site_;
  std::vector<int32_t> tokens_;
  std::vector<float> weights_;
  std::vector<uint8_t> begins_;
};

TEST_F(SiteTest, SumsTheGradientsOfAllRows) {
  for (const int64_t count : {1, 2, 3, 7, 8}) {
    SCOPED_TRACE(count);
    expect_the_same(rows(count));
  }
}

TEST_F(SiteTest, CountsWhatTheMarksSay) {
  expect_the_same(rows(5, true));
  expect_the_same(rows(5));
}

TEST_F(SiteTest, TakesTheWeightsOfEveryStep) {
  expect_the_same(rows(6));
  init(2);
  expect_the_same(rows(6));
}

TEST_F(SiteTest, ReplacesTheGradientsOfTheStepBefore) {
  tensor::Arena first(layout_), again(layout_);
  const StepRows step = rows(4);
  site_->gradients(*model_, params_, step, first);
  site_->gradients(*model_, params_, rows(8), again);
  site_->gradients(*model_, params_, rows(4), again);
  EXPECT_TRUE(std::ranges::equal(first.all(), again.all()));
}

TEST_F(SiteTest, ARankThatFailsIsNamed) {
  const StepRows step = rows(6);
  tokens_.back() = 100000;  // the last rank's
  tensor::Arena out(layout_);
  try {
    site_->gradients(*model_, params_, step, out);
    FAIL() << "a token outside the vocabulary";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 2"));
    EXPECT_THAT(error.what(), HasSubstr("100000"));
  }
  end();
  EXPECT_THAT(failures_[1], HasSubstr("rank 2")) << "it does not wait for ever";
}

TEST_F(SiteTest, OthersEndWithTheWorker) {
  const StepRows step = rows(6);
  tokens_.front() = 100000;  // its own
  tensor::Arena out(layout_);
  EXPECT_THROW(site_->gradients(*model_, params_, step, out), Error);
  end();
  for (size_t rank = 1; rank < ranks_.size(); ++rank) {
    EXPECT_THAT(failures_[rank], HasSubstr("the worker of this site failed"));
  }
}

TEST_F(SiteTest, OthersAreDoneWhenTheSiteIs) {
  expect_the_same(rows(3));
  end();
  for (const std::string& failure : failures_) EXPECT_EQ(failure, "");
}

// The other ranks have the frozen weights as the worker has them, in each format.
config::Recipe adapted(WeightFormat weights) {
  config::Recipe recipe =
      recipe_with({"train.batch=16", "train.microbatch=2", "adapter.kind=lora", "adapter.rank=4",
                   "train.init=MODEL", "train.precision=bf16"});
  recipe.train.weights = weights;
  if (weights != WeightFormat::kF32) recipe.train.precision = Precision::kBf16;
  return recipe;
}

class AdaptedSiteTest : public SiteTest, public testing::WithParamInterface<WeightFormat> {
 protected:
  AdaptedSiteTest() : SiteTest(adapted(GetParam())) {}
};

TEST_P(AdaptedSiteTest, SumsTheGradientsOfTheFactors) {
  for (const int64_t count : {1, 3, 8}) {
    SCOPED_TRACE(count);
    expect_the_same(rows(count));
  }
  init(2);
  expect_the_same(rows(6));
}

TEST_P(AdaptedSiteTest, TakesFrozenWeightsThatHaveChanged) {
  expect_the_same(rows(6));
  fill_frozen(12);
  model_->refresh_frozen();
  site_->set_frozen(frozen_.values);
  expect_the_same(rows(6));
}

INSTANTIATE_TEST_SUITE_P(Formats, AdaptedSiteTest,
                         testing::Values(WeightFormat::kF32, WeightFormat::kBf16,
                                         WeightFormat::kNf4, WeightFormat::kInt8),
                         [](const auto& one) { return std::string(name_of(one.param)); });

class StreamedSiteTest : public SiteTest {
 protected:
  StreamedSiteTest() : StreamedSiteTest(3) {}
  explicit StreamedSiteTest(int ranks)
      : SiteTest(recipe_with({"train.update=layer", "optim.clip=0"}), ranks) {}

  // Steps of so many rows, one after the other.
  void expect_the_same_streamed(std::initializer_list<int64_t> counts) {
    tensor::Arena alone(layout_), together(layout_);
    int groups = 0;
    tensor::StreamedGradients sums(
        layout_, model_->stream_size(),
        site_->summing({[&](size_t tensor, std::span<const float> gradient) {
                          std::ranges::copy(gradient, together.tensor(tensor).begin());
                        },
                        [&](int) { ++groups; }}));
    for (const int64_t count : counts) {
      SCOPED_TRACE(count);
      const StepRows step = rows(count);
      ASSERT_TRUE(site_->streams(step));
      groups = 0;
      const double loss = site_->stream(*model_, params_, step, sums);
      tensor::WholeGradients sink(alone);
      StepRows in_passes = step;
      in_passes.max_rows = 1;
      const double expected = accumulate_gradients(*model_, in_passes, sink);
      EXPECT_NEAR(loss, expected, 1e-5 * expected);
      EXPECT_LT(model::relative_norm_of_error(together.all(), alone.all()), 1e-5);
      EXPECT_GT(groups, 2);
    }
  }
};

TEST_F(StreamedSiteTest, SumsOneGradientAfterTheOther) {
  expect_the_same_streamed({1, 2, 5, 6, 2});
}

class LargeStreamedSiteTest : public StreamedSiteTest {
 protected:
  LargeStreamedSiteTest() : StreamedSiteTest(5) {}
};

TEST_F(LargeStreamedSiteTest, SumsFewerRowsThanRanksAndOneMore) {
  expect_the_same_streamed({1, 2, 3, 4, 5, 6});
}

// If others are away, and a rank's rows take several passes.
TEST_F(StreamedSiteTest, SumsAllAtOnceWhereARankTakesSeveralPasses) {
  const StepRows step = rows(20);
  EXPECT_FALSE(site_->streams(step));
  expect_the_same(step);
  expect_the_same(rows(3 * method::rows_per_pass(recipe_.train) + 1));
}

// A site's ranks keep what the worker keeps in files, or in bf16, likewise.
class StoredSiteTest : public SiteTest, public testing::WithParamInterface<std::string> {
 protected:
  StoredSiteTest()
      : SiteTest(
            in_bf16(recipe_with({"train.batch=16", "train.microbatch=2", "train.precision=bf16",
                                 GetParam(), "run.dir=" + test_folder().string()}))) {}
  static config::Recipe in_bf16(config::Recipe recipe) {
    recipe.train.precision = Precision::kBf16;
    return recipe;
  }
};

TEST_P(StoredSiteTest, TakesTheWeightsOfEveryStep) {
  expect_the_same(rows(6));
  init(2);
  expect_the_same(rows(6));
}

INSTANTIATE_TEST_SUITE_P(Ways, StoredSiteTest,
                         testing::Values("train.offload=true", "train.weights=bf16"),
                         [](const auto& one) {
                           return one.param.substr(6, one.param.find('=') - 6);
                         });

class PairsSiteTest : public SiteTest {
 protected:
  PairsSiteTest()
      : SiteTest(recipe_with({"train.batch=16", "train.microbatch=2", "data.records=preferences",
                              "train.init=MODEL"})) {}

  // Rows of 0 to 2 pairs of answers.
  StepRows pairs(int64_t count) {
    StepRows step = rows(count, true);
    std::ranges::fill(begins_, uint8_t{0});
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t i = 1; i <= (2 * row + 1) % 5; ++i) {
        begins_[static_cast<size_t>(row * recipe_.train.sequence + 3 * i)] = 1;
      }
    }
    step.counted_a_row = 1.5;
    return step;
  }
  std::vector<PairLikelihoods> references(size_t count) const {
    std::vector<PairLikelihoods> all;
    Rng rng(5, 1);
    while (all.size() < count) all.push_back({-20 - rng.normal(), -20 - rng.normal()});
    return all;
  }
};

TEST_F(PairsSiteTest, FormTheLossOfEachPairOnOneRank) {
  for (const int64_t count : {1, 2, 5, 8}) {
    SCOPED_TRACE(count);
    const StepRows step = pairs(count);
    const size_t all = pairs_in(begins_, recipe_.train.sequence);
    PairLoss alone(recipe_.preference, references(all)),
        shared(recipe_.preference, references(all));
    StepRows own = step, together = step;
    own.loss = &alone;
    together.loss = &shared;
    expect_the_same(own, together);
    EXPECT_EQ(alone.sums().pairs, static_cast<int64_t>(all));
    EXPECT_EQ(shared.sums().pairs, alone.sums().pairs);
    EXPECT_EQ(shared.sums().right, alone.sums().right);
    EXPECT_NEAR(shared.sums().chosen, alone.sums().chosen, 1e-5);
    EXPECT_NEAR(shared.sums().rejected, alone.sums().rejected, 1e-5);
  }
}

TEST(CheckSite, NamesWhatCannotBeShared) {
  const auto refusal = [](std::vector<std::string> fields) {
    try {
      method::check_command(recipe_with(std::move(fields)), method::Command::kSite);
      return std::string();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({"sync.method=diloco"}), "");
  EXPECT_EQ(refusal({"train.update=layer", "optim.clip=0"}), "");
  EXPECT_THAT(refusal({"train.workers=1", "optim.method=galore", "optim.gradients=projected"}),
              HasSubstr("[optim] gradients must be \"whole\""));
  EXPECT_EQ(refusal({"train.offload=true"}), "");
  EXPECT_EQ(refusal({"data.records=preferences", "train.init=MODEL"}), "");
  EXPECT_EQ(refusal({"adapter.kind=lora", "train.init=MODEL"}), "");
  EXPECT_EQ(refusal({"adapter.kind=relora"}), "");
  EXPECT_EQ(refusal({"train.weights=bf16", "train.precision=bf16"}), "");
}

}  // namespace
}  // namespace thinwire::train
