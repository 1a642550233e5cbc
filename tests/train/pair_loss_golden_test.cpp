// Losses of pairs of answers against the trace of an independent reference
// (tests/golden/make_dpo.py), with each pair in a row, as training has them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/tiny_model.h"
#include "tests/model/without_torch.h"
#include "tests/paths.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/tensor/storage/gradient_sink.h"
#include "thinwire/train/gradients.h"
#include "thinwire/train/pair_loss.h"

namespace thinwire::train {
namespace {

class GoldenPairs : public testing::Test {
 protected:
  GoldenPairs()
      : base_("gqa"),
        trace_(tests::source_file("tests/golden/dpo.safetensors")),
        variants_(parse_json<nlohmann::json>(trace_.metadata().at("variants"))) {
    const std::vector<float> known = trace_.read_f32("reference");
    for (size_t i = 0; i < known.size(); i += 2) reference_.push_back({known[i], known[i + 1]});
  }

  // Fills rows of `sequence` predictions with these numbers of pairs, one after the other.
  void fill(const std::vector<size_t>& rows, size_t sequence = 20) {
    sequence_ = static_cast<int64_t>(sequence);
    const auto texts = trace_.read_integers("texts");
    const auto lengths = trace_.read_integers("lengths");
    const auto prompts = trace_.read_integers("prompts");
    const size_t width = texts.size() / lengths.size();
    tokens_.assign(rows.size() * (sequence + 1), 0);
    weights_.assign(rows.size() * sequence, 0);
    begins_.assign(rows.size() * sequence, 0);
    size_t text = 0;
    for (size_t row = 0; row < rows.size(); ++row) {
      int64_t at = 0;
      for (const size_t end = text + 2 * rows[row]; text < end; ++text) {
        begins_[row * sequence + static_cast<size_t>(at)] = 1;
        for (int64_t i = 0; i < lengths[text]; ++i, ++at) {
          const auto token = texts[text * width + static_cast<size_t>(i)];
          tokens_[row * (sequence + 1) + static_cast<size_t>(at)] = static_cast<int32_t>(token);
          if (i < prompts[text / 2]) continue;
          weights_[row * sequence + static_cast<size_t>(at - 1)] = 1;
        }
      }
      begins_[row * sequence + static_cast<size_t>(at)] = 1;  // padding
    }
    rows_ = static_cast<int64_t>(rows.size());
  }

  config::PreferenceSection section(const std::string& variant) const {
    const nlohmann::json& options = variants_.at(variant);
    config::PreferenceSection section;
    section.beta = options.at("beta");
    section.label_smoothing = options.at("label_smoothing");
    if (options.at("loss") == "ipo") section.loss = config::PreferenceLoss::kIpo;
    return section;
  }

  // The mean loss; its gradients are then in the model's.
  double gradients(model::TinyModel& tiny, model::Model& model, PairLoss& loss, int64_t per_pass) {
    tensor::WholeGradients sink(tiny.gradients);
    const double pairs_a_row = static_cast<double>(reference_.size()) / static_cast<double>(rows_);
    return accumulate_gradients(
               model, {tokens_, sequence_, per_pass, {weights_, begins_}, pairs_a_row, &loss},
               sink) /
           static_cast<double>(reference_.size());
  }

  void expect_variant(const std::string& name, Precision precision, double tolerance,
                      const model::Placement& placement = {}) {
    SCOPED_TRACE(name);
    const config::PreferenceSection preference = section(name);
    const auto tiny = base_.model();
    const auto model = tiny->make(precision, rows_, sequence_, placement);
    PairLoss loss(preference, reference_);
    const double mean = gradients(*tiny, *model, loss, rows_);
    const double expected = trace_.read_f32(name + ".loss").front();
    EXPECT_NEAR(mean, expected, tolerance * expected);
    for (size_t i = 0; i < tiny->layout.size(); ++i) {
      const std::string tensor = tiny->layout.specs()[i].name;
      EXPECT_LT(model::relative_error(std::as_const(tiny->gradients).tensor(i),
                                      trace_.read_f32(fmt::format("{}.grad.{}", name, tensor))),
                tolerance)
          << tensor;
    }
    const std::vector<float> rewards = trace_.read_f32(name + ".rewards");
    double chosen = 0, rejected = 0;
    int64_t right = 0;
    for (size_t i = 0; i < rewards.size(); i += 2) {
      chosen += rewards[i];
      rejected += rewards[i + 1];
      right += rewards[i] > rewards[i + 1] ? 1 : 0;
    }
    EXPECT_EQ(loss.sums().pairs, 3);
    EXPECT_EQ(loss.sums().right, right);
    EXPECT_NEAR(loss.sums().chosen, chosen, tolerance);
    EXPECT_NEAR(loss.sums().rejected, rejected, tolerance);
    PairLoss again(preference, reference_);
    EXPECT_EQ(model->loss(tokens_, rows_, {weights_, begins_}, again) / 3, mean);
  }

  const model::Golden base_;
  const tensor::SafetensorsReader trace_;
  const nlohmann::json variants_;
  std::vector<PairLikelihoods> reference_;
  int64_t rows_ = 0, sequence_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<float> weights_;
  std::vector<uint8_t> begins_;
};

TEST_F(GoldenPairs, LossesAndGradientsAreTheReferences) {
  fill({1, 1, 1});
  for (const auto& [name, options] : variants_.items()) {
    expect_variant(name, Precision::kFp32, 2e-5);
  }
}

TEST_F(GoldenPairs, PackingPairsChangesNothing) {
  fill({1, 1, 1});
  const auto apart = base_.model();
  const auto one = apart->make(Precision::kFp32, rows_, sequence_);
  const config::PreferenceSection preference = section("sigmoid");
  PairLoss loss(preference, reference_);
  const double separate = gradients(*apart, *one, loss, rows_);
  fill({1, 2}, 32);
  const auto packed = base_.model();
  const auto other = packed->make(Precision::kFp32, rows_, sequence_);
  PairLoss again(preference, reference_);
  EXPECT_NEAR(gradients(*packed, *other, again, 1), separate, 1e-6);
  EXPECT_LT(model::relative_error(std::as_const(packed->gradients).all(),
                                  std::as_const(apart->gradients).all()),
            1e-5);
}

TEST_F(GoldenPairs, GradientDescentFollowsTheReference) {
  fill({1, 1, 1});
  const config::PreferenceSection preference = section("sigmoid");
  const auto tiny = base_.model();
  const auto model = tiny->make(Precision::kFp32, 2, sequence_);
  for (const float expected : trace_.read_f32("descent")) {
    PairLoss loss(preference, reference_);
    EXPECT_NEAR(gradients(*tiny, *model, loss, 2), expected, 1e-4) << "in passes of 2 and 1 rows";
    for (size_t i = 0; i < tiny->params.all().size(); ++i) {
      tiny->params.all()[i] -= 0.005F * tiny->gradients.all()[i];
    }
    model->refresh();
  }
}

TEST_F(GoldenPairs, TorchComputesTheSame) {
  fill({1, 1, 1});
  const std::string absent = model::without_torch([&] {
    const model::Placement placement = model::placement_of(config::DeviceChoice::kTorchCpu);
    for (const auto& [name, options] : variants_.items()) {
      expect_variant(name, Precision::kFp32, 2e-5, placement);
    }
  });
  if (!absent.empty()) GTEST_SKIP() << absent;
}

TEST_F(GoldenPairs, RoundedOperandsComeNear) {
  fill({1, 1, 1});
  expect_variant("sigmoid", Precision::kBf16, 0.1);
}

TEST_F(GoldenPairs, AtTheStartAllPairsAreEven) {
  fill({1, 1, 1});
  const auto tiny = base_.model();
  const auto model = tiny->make(Precision::kFp32, rows_, sequence_);
  PairScores scores;
  model->loss(tokens_, rows_, {weights_, begins_}, scores);
  ASSERT_EQ(scores.scores.size(), 3u);
  const config::PreferenceSection preference = section("sigmoid");
  PairLoss loss(preference, scores.scores);
  EXPECT_DOUBLE_EQ(model->loss(tokens_, rows_, {weights_, begins_}, loss), 3 * std::log(2.0));
  EXPECT_EQ(loss.sums().right, 0);
  EXPECT_EQ(loss.sums().chosen, 0);
  EXPECT_THROW(model->loss(tokens_, rows_, {weights_, begins_}, loss), Error)
      << "the reference has three pairs";
}

// Far from even, where exp(h) overflows a float, losses and gradients stay finite.
TEST_F(GoldenPairs, ExtremeMarginsStayFinite) {
  fill({1, 1, 1});
  for (const double far : {-1e4, 1e4}) {
    const auto tiny = base_.model();
    const auto model = tiny->make(Precision::kFp32, rows_, sequence_);
    config::PreferenceSection preference = section("smoothed");
    preference.beta = 1;
    PairLoss loss(preference, {{far, 0}, {far, 0}, {far, 0}});
    EXPECT_TRUE(std::isfinite(gradients(*tiny, *model, loss, rows_)));
    for (const float value : tiny->gradients.all()) ASSERT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace thinwire::train
