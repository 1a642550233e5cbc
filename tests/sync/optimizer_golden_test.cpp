// Steps of every optimizer on the token-weighted mean of three workers' gradients, clipped, against
// traces of independent references (tests/golden/README.md).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "replicas.h"
#include "tests/paths.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/registry.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::sync {
namespace {

constexpr int kWorkers = 3;

struct Trace {
  std::string file;
  std::vector<std::string> recipe;  // overrides
  std::vector<TensorSpec> tensors;
};

std::vector<TensorSpec> matrices_and_rest() {
  return {{"embed", {12, 8}, TensorRole::kEmbedding}, {"wide", {7, 11}, TensorRole::kMatrix},
          {"tall", {13, 5}, TensorRole::kMatrix},     {"square", {8, 8}, TensorRole::kMatrix},
          {"norm", {11}, TensorRole::kNorm},          {"head", {12, 8}, TensorRole::kHead}};
}

std::vector<Trace> traces() {
  const auto low_rank = [](const std::string& file, const std::string& optimizer,
                           const std::vector<std::string>& options) {
    Trace trace = {file, {"optim.method=" + optimizer}, matrices_and_rest()};
    for (const std::string& option : options) trace.recipe.push_back(optimizer + "." + option);
    return trace;
  };
  return {{"adamw",
           {"optim.method=adamw"},
           {{"embed", {12, 8}, TensorRole::kEmbedding},
            {"w", {7, 10}, TensorRole::kMatrix},
            {"norm", {10}, TensorRole::kNorm}}},
          {"muon", {"optim.method=muon"}, matrices_and_rest()},
          low_rank("galore", "galore", {"rank=3", "refresh=4"}),
          low_rank("galore_rotate", "galore", {"rank=3", "refresh=4", "moments=rotate"}),
          low_rank("natural_galore_one", "natural_galore", {"rank=3", "refresh=4", "history=3"}),
          low_rank("natural_galore_clear", "natural_galore",
                   {"rank=3", "refresh=4", "history=4", "at_refresh=clear", "damping_is=relative"}),
          low_rank("natural_galore_keep", "natural_galore",
                   {"rank=3", "refresh=4", "at_refresh=keep", "moments=rotate"}),
          low_rank("natural_galore_two", "natural_galore",
                   {"rank=3", "refresh=4", "history=3", "sides=two", "damping_is=relative",
                    "moments=rotate"}),
          low_rank("apollo", "apollo", {"rank=3", "refresh=4"}),
          low_rank("apollo_mini", "apollo", {"rank=1", "refresh=4", "scaling=tensor", "scale=2"}),
          low_rank("fira", "fira", {"rank=3", "refresh=4"}),
          low_rank("fira_scaled", "fira", {"rank=3", "refresh=4", "scale=0.25"}),
          low_rank("scale", "scale", {})};
}

class OptimizerTrace : public testing::TestWithParam<Trace> {};

INSTANTIATE_TEST_SUITE_P(Files, OptimizerTrace, testing::ValuesIn(traces()),
                         [](const auto& trace) { return trace.param.file; });

TEST_P(OptimizerTrace, IsFollowed) {
  const tensor::SafetensorsReader golden(
      tests::source_file(fmt::format("tests/golden/{}.safetensors", GetParam().file)));
  std::vector<std::string> overrides = {"sync.method=allreduce", "allreduce.wire=fp32"};
  overrides.insert(overrides.end(), GetParam().recipe.begin(), GetParam().recipe.end());
  Replicas replicas(config::parse_recipe("", "test", overrides, method::method_sections()),
                    GetParam().tensors, kWorkers);
  const auto specs = replicas.layout().specs();
  for (int worker = 0; worker < kWorkers; ++worker) {
    for (size_t t = 0; t < specs.size(); ++t) {
      golden.read_f32("param." + specs[t].name, replicas.params(worker).tensor(t));
    }
  }
  const std::vector<float> lr = golden.read_f32("lr");
  const std::vector<float> norm = golden.read_f32("norm");
  for (size_t step = 0; step < lr.size(); ++step) {
    const auto tokens = golden.read_integers(fmt::format("tokens.{}", step));
    const auto all = static_cast<double>(tokens[0] + tokens[1] + tokens[2]);
    std::vector<float> weights;
    for (const int64_t count : tokens) weights.push_back(float(double(count) / all));
    const auto reports = replicas.step(
        step, lr[step],
        [&](int worker, tensor::Arena& gradients) {
          for (size_t t = 0; t < specs.size(); ++t) {
            golden.read_f32(fmt::format("grad.{}.{}.{}", step, worker, specs[t].name),
                            gradients.tensor(t));
          }
        },
        weights);
    for (int worker = 0; worker < kWorkers; ++worker) {
      ASSERT_TRUE(reports[size_t(worker)].has_value());
      EXPECT_NEAR(reports[size_t(worker)]->gradient_norm, norm[step], 1e-6);
      for (size_t t = 0; t < specs.size(); ++t) {
        const auto expected = golden.read_f32(fmt::format("after.{}.{}", step + 1, specs[t].name));
        const auto got = replicas.params(worker).tensor(t);
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(got[i], expected[i], 1e-6) << specs[t].name << " step " << step;
        }
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::sync
