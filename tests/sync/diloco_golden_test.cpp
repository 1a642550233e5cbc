// Local SGD, DiLoCo and related methods against the traces of tests/golden/make_outer.py, an
// independent implementation.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/paths.h"
#include "tests/sync/hashed_run.h"
#include "thinwire/base/json.h"
#include "thinwire/methods/diloco/diloco_outer_step.h"
#include "thinwire/methods/diloco/diloco_spec.h"
#include "thinwire/methods/sparseloco/sparseloco_spec.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::sync {
namespace {

using nlohmann::json;
using testing::FloatNear;
using testing::Pointwise;

constexpr float kTolerance = 1e-6f;

TensorRole role_of(const std::string& name) {
  if (name == "embedding") return TensorRole::kEmbedding;
  if (name == "norm") return TensorRole::kNorm;
  return name == "head" ? TensorRole::kHead : TensorRole::kMatrix;
}

class DiLoCoGolden : public testing::TestWithParam<const char*> {
 protected:
  DiLoCoGolden()
      : golden_(tests::source_file(fmt::format("tests/golden/outer_{}.safetensors", GetParam()))),
        trace_(parse_json<json>(golden_.metadata().at("options"))),
        run_(run_options()) {}

  HashedRunOptions run_options() const {
    HashedRunOptions options;
    options.recipe = recipe();
    options.seed = std::stoull(trace_["seed"].get<std::string>(), nullptr, 16);
    options.param_scale = trace_["param_scale"];
    options.workers = trace_["workers"];
    options.weights = trace_["weights"].get<std::vector<float>>();
    if (trace_.contains("weights_from")) {
      for (const json& change : trace_["weights_from"]) {
        options.weights_from[change["step"]] = change["weights"].get<std::vector<float>>();
      }
    }
    options.pull = trace_["pull"];
    for (const json& tensor : trace_["tensors"]) {
      options.tensors.push_back(
          {tensor["name"], tensor["shape"], role_of(tensor["role"]), tensor["layer"]});
      options.gradient_scales.push_back(tensor["grad_scale"]);
    }
    return options;
  }

  std::string recipe() const {
    std::string text = fmt::format("[train]\nsteps = {}\nworkers = {}\n[sync]\nmethod = {}\n",
                                   print_json(trace_["steps"]), print_json(trace_["workers"]),
                                   print_json(trace_["method"]));
    if (!trace_["clusters"].empty()) {
      text += fmt::format("within = {}\nclusters = {}\n", print_json(trace_["within"]),
                          trace_["clusters"].size());
    }
    if (trace_.contains("aggregate")) {
      text += fmt::format("aggregate = {}\ntrim = {}\n", print_json(trace_["aggregate"]["rule"]),
                          print_json(trace_["aggregate"]["trim"]));
    }
    text += "[allreduce]\nwire = \"fp32\"\n";
    if (trace_["within"] == "distro") {
      text += "[distro]\n";
      for (const char* key :
           {"chunk", "k", "decay", "values", "feedback", "aggregate", "update", "transform"}) {
        text += fmt::format("{} = {}\n", key, print_json(trace_["distro"][key]));
      }
    }
    text += "[optim]\n";
    for (const auto& [key, value] : trace_["optim"].items()) {
      text += fmt::format("{} = {}\n", key, print_json(value));
    }
    text += fmt::format("[{}]\n", trace_["method"].get<std::string>());
    // The reference's default is the published equation's, not the recipe's.
    if (trace_["method"] == "sparseloco" && !trace_["section"].contains("aggregate")) {
      text += "aggregate = \"mean_of_all\"\n";
    }
    for (const auto& [key, value] : trace_["section"].items()) {
      text += fmt::format("{} = {}\n", key, print_json(value));
    }
    return text;
  }

  method::DilocoOptions outer() const {
    if (trace_["method"] != "sparseloco") {
      return run_.recipe().section<method::DilocoOptions>(trace_["method"]);
    }
    auto options = run_.recipe().section<method::SparseLocoOptions>("sparseloco").outer_options();
    options.error_feedback = true;  // part of the method
    return options;
  }

  void expect_near(std::span<const float> got, const std::string& key) const {
    ASSERT_THAT(got, Pointwise(FloatNear(kTolerance), golden_.read_f32(key))) << key;
  }

  // Every tensor for which the trace has `key`.
  template <typename Values>
  void expect_tensors(const std::string& key, const Values& values) const {
    const auto specs = run_.replicas().layout().specs();
    int found = 0;
    for (size_t tensor = 0; tensor < specs.size(); ++tensor) {
      const std::string name = key + "." + specs[tensor].name;
      if (!golden_.contains(name)) continue;
      ++found;
      expect_near(values(tensor), name);
    }
    EXPECT_GT(found, 0) << key;
  }

  // A tensor of state in the order of the fragments, which may each have some of it.
  std::vector<float> part(std::span<const float> state, size_t tensor) const {
    const tensor::Layout& layout = run_.replicas().layout();
    const int64_t start = layout.offset(tensor);
    const int64_t end = start + layout.specs()[tensor].count();
    std::vector<float> values(static_cast<size_t>(end - start));
    for (const DilocoFragment& fragment : diloco_fragments(layout, outer().fragments())) {
      for (const FragmentPiece& piece : fragment.pieces) {
        const int64_t first = std::max(start, piece.arena);
        const int64_t last = std::min(end, piece.arena + piece.count);
        if (first >= last) continue;
        std::copy_n(state.begin() + piece.buffer + (first - piece.arena), last - first,
                    values.begin() + (first - start));
      }
    }
    return values;
  }

  void expect_state(const std::string& key, const std::string& name) {
    const std::span<const float> state = run_.state(0, name);
    expect_tensors(key, [&](size_t tensor) { return part(state, tensor); });
  }

  // What a worker keeps for itself.
  void expect_local(int64_t completed) {
    const int last = run_.replicas().members() - 1;
    for (const int worker : {0, last}) {
      expect_tensors(fmt::format("local.{}.{}", worker, completed), [&](size_t tensor) {
        return std::as_const(run_.replicas().params(worker)).tensor(tensor);
      });
    }
    const method::DilocoOptions options = outer();
    if (options.error_feedback && !options.keeps_error_in_weights()) {
      expect_state(fmt::format("r.{}", completed), "local.error");
    }
    if (!options.eager()) return;
    expect_state(fmt::format("e.{}", completed), "local.correction");
    if (!options.has_momentum()) return;
    expect_state(fmt::format("u.{}", completed), "local.correction_velocity");
  }

  tensor::SafetensorsReader golden_;
  json trace_;
  mutable HashedRun run_;
};

INSTANTIATE_TEST_SUITE_P(
    Traces, DiLoCoGolden,
    testing::Values("local_sgd", "average", "sgd", "momentum", "diloco", "bf16", "fp8", "fp4",
                    "int2", "int1", "fp4_feedback", "int2_feedback", "int1_feedback",
                    "int1_weights", "int2_weights", "slices", "slices_inner", "slices_weights",
                    "members_weights", "two_stage_weights", "int1_summed", "slices_summed",
                    "eager_summed", "clip", "partial", "inner1", "inner2", "inner2_mix", "delayed",
                    "eager1", "eager2", "eager_feedback", "eager_partial", "streaming",
                    "streaming_uneven", "streaming_inner", "streaming_delayed", "streaming_eager",
                    "streaming_eager_feedback", "streaming_clip", "muon", "muon_int2", "sparseloco",
                    "sparseloco_rate", "two_stage", "two_stage_distro", "two_stage_eager",
                    "two_stage_sparseloco", "two_stage_streaming", "streaming_muon",
                    "sparseloco_nesterov", "eager_sgd", "delayed_momentum", "speeds",
                    "speeds_eager", "members", "members_inner", "members_eager", "members_muon",
                    "members_streaming", "members_streaming_eager", "members_sparseloco",
                    "norm_clipping", "trimmed_mean", "majority_vote", "sparseloco_senders",
                    "sparseloco_trimmed", "sparseloco_summed", "sparseloco_summed_all",
                    "delayed_after", "eager_after", "eager_feedback_after", "streaming_inner_after",
                    "streaming_eager_after", "members_eager_after"),
    [](const auto& name) { return std::string(name.param); });

TEST_P(DiLoCoGolden, WeightsAndStateFollowTheTrace) {
  const auto rates = golden_.read_f32("lr");
  const auto norms = golden_.contains("norm") ? golden_.read_f32("norm") : std::vector<float>();
  const auto workers = static_cast<size_t>(run_.replicas().members());
  std::set<int64_t> applied;
  for (const json& step : trace_["applied"]) applied.insert(step["step"].get<int64_t>());
  for (size_t step = 0; step < rates.size(); ++step) {
    ASSERT_TRUE(run_.step(rates[step]));
    const auto completed = static_cast<int64_t>(step) + 1;
    EXPECT_EQ(run_.synchronised(), applied.contains(completed)) << completed;
    for (size_t worker = 0; worker < workers; ++worker) {
      if (!norms.empty()) {
        // One norm a cluster.
        const size_t clusters = norms.size() / rates.size();
        EXPECT_NEAR(run_.norm(int(worker)), norms[step * clusters + worker * clusters / workers],
                    1e-5);
      }
      if (!applied.contains(completed)) continue;
      expect_tensors(fmt::format("after.{}", completed),
                     [&](size_t tensor) { return run_.params(int(worker), tensor); });
    }
    if (completed == trace_["mid"]) expect_local(completed);
  }
  if (outer().has_momentum()) expect_state("v", "outer.velocity");
  for (size_t worker = 0; worker < workers; ++worker) {
    EXPECT_THAT(run_.replicas().params(int(worker)).all(),
                testing::ElementsAreArray(run_.params(int(worker))))
        << "worker " << worker << " kept weights of its own";
  }
}

}  // namespace
}  // namespace thinwire::sync
