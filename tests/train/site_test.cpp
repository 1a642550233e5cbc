// Ranks of a site, on threads, compute what one model computes alone.
#include "thinwire/train/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/model/tiny_model.h"
#include "tests/tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/combinations.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/model/registry.h"
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
  static constexpr int kRanks = 3;

  SiteTest()
      : recipe_(recipe_with({"train.batch=16", "train.microbatch=2"})),
        layout_(method::tensors_of(recipe_)),
        params_(layout_),
        threads_(1),
        model_(model::make_model({method::ModelSpec(recipe_), Precision::kFp32, layout_, params_,
                                  threads_, method::rows_per_pass(recipe_.train),
                                  recipe_.train.sequence})),
        ranks_(transport::make_local_communicators(kRanks)) {
    init(1);
    for (int rank = 1; rank < kRanks; ++rank) {
      helpers_.emplace_back([this, rank] {
        try {
          help_site(*ranks_[static_cast<size_t>(rank)]);
        } catch (const Error& error) {
          failures_[rank] = error.what();
        }
      });
    }
    site_ = std::make_unique<Site>(*ranks_.front());
    site_->begin(recipe_);
  }
  ~SiteTest() override { end(); }

  void init(uint64_t seed) {
    model::init_parameters(params_, method::ModelSpec(recipe_), seed);
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

  void expect_the_same(const StepRows& step) {
    tensor::Arena alone(layout_), together(layout_);
    tensor::WholeGradients sink(alone);
    const double loss = accumulate_gradients(*model_, step, sink);
    EXPECT_NEAR(site_->gradients(*model_, params_, step, together), loss, 1e-5 * loss);
    EXPECT_LT(model::relative_norm_of_error(together.all(), alone.all()), 1e-5);
  }

  const config::Recipe recipe_;
  const tensor::Layout layout_;
  tensor::Arena params_;
  ThreadPool threads_;
  const std::unique_ptr<model::Model> model_;
  std::vector<std::unique_ptr<transport::Communicator>> ranks_;
  std::vector<std::thread> helpers_;
  std::string failures_[kRanks];
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
  for (int rank = 1; rank < kRanks; ++rank) {
    EXPECT_THAT(failures_[rank], HasSubstr("the worker of this site failed"));
  }
}

TEST_F(SiteTest, OthersAreDoneWhenTheSiteIs) {
  expect_the_same(rows(3));
  end();
  for (const std::string& failure : failures_) EXPECT_EQ(failure, "");
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
  EXPECT_THAT(refusal({"train.update=layer", "optim.clip=0"}),
              HasSubstr("[train] update must be \"step\""));
  EXPECT_THAT(refusal({"train.workers=1", "optim.method=galore", "optim.gradients=projected"}),
              HasSubstr("[optim] gradients must be \"whole\""));
  EXPECT_THAT(refusal({"train.offload=true"}), HasSubstr("[train] offload must be false"));
  EXPECT_THAT(refusal({"data.records=preferences"}), HasSubstr("preferences"));
}

}  // namespace
}  // namespace thinwire::train
