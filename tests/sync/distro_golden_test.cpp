// DisTrO against the traces of tests/golden/make_distro.py, an independent implementation.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/paths.h"
#include "tests/sync/distro_trace.h"
#include "tests/sync/hashed_run.h"
#include "tests/tensor/dct_reference.h"
#include "thinwire/base/json.h"
#include "thinwire/codec/payload.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/methods/distro/distro_encoder.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::sync {
namespace {

using nlohmann::json;
using testing::FloatNear;
using testing::Pointwise;

constexpr float kTolerance = 1e-6f;

class DistroGolden : public testing::TestWithParam<const char*> {
 protected:
  DistroGolden()
      : golden_(tests::source_file(fmt::format("tests/golden/distro_{}.safetensors", GetParam()))),
        trace_(parse_json<json>(golden_.metadata().at("options"))) {}

  HashedRunOptions run_options() const {
    HashedRunOptions options = options_of_trace(trace_);
    options.recipe = recipe();
    options.pull = trace_["pull"];
    return options;
  }

  std::string recipe() const {
    const auto text = [&](const char* key) { return trace_[key].get<std::string>(); };
    const bool robust = trace_.contains("rule") && trace_["rule"] != "mean";
    return fmt::format(
        "[sync]\nmethod = \"distro\"\naggregate = {}\n[train]\nsteps = {}\n"
        "[adamw]\nbeta1 = {}\nbeta2 = {}\neps = {}\n[optim]\nweight_decay = {}\nclip = {}\n"
        "[distro]\nchunk = {}\nk = {}\nfixed_k = {}\ndecay = {}\nvalues = \"{}\"\nfeedback = {}\n"
        "aggregate = \"{}\"\nupdate = \"{}\"\ntransform = \"{}\"\nclient = \"{}\"\n"
        "local_steps = {}\nlocal_update = \"{}\"\noverlap = {}\nlook_ahead = {}\n"
        "muon_momentum = {}\nmuon_scale = {}\nsum_wire = \"{}\"\nsum_k = {}\n",
        robust ? print_json(trace_["rule"]) : "\"mean\"", print_json(trace_["steps"]),
        print_json(trace_["betas"][0]), print_json(trace_["betas"][1]), print_json(trace_["eps"]),
        print_json(trace_["wd"]), print_json(trace_["clip"]), print_json(trace_["chunk"]),
        print_json(trace_["k"]), text("k_rule") == "fixed", print_json(trace_["decay"]),
        text("values"), print_json(trace_["feedback"]), text("aggregate"), text("update"),
        text("transform"), text("client"), print_json(trace_["local_steps"]), text("local_update"),
        print_json(trace_["overlap"]), print_json(trace_["look_ahead"]),
        trace_.value("muon_momentum", 0.9), trace_.value("muon_scale", 0.2),
        trace_.value("sum_wire", "same"), trace_.value("sum_k", 0));
  }

  // Momentum in the parameters' domain.
  std::vector<float> momentum(std::span<const float> state, const codec::DistroTiles& tiles,
                              const tensor::Layout& layout, size_t tensor) const {
    const codec::TileKind& kind = tiles.kind(tensor);
    const int64_t start = layout.offset(tensor);
    std::vector<float> out(static_cast<size_t>(layout.specs()[tensor].count()));
    for (int64_t tile = 0; tile < tiles.shapes()[tensor].tiles; ++tile) {
      const codec::TilePlace place = tiles.place(tensor, tile);
      std::vector<uint16_t> slots;
      std::vector<float> values;
      for (int slot = 0; slot < kind.slots(); ++slot) {
        const int position = slot % kind.columns * kind.rows + slot / kind.columns;
        slots.push_back(static_cast<uint16_t>(slot));
        values.push_back(state[static_cast<size_t>(start + tile * kind.slots() + position)]);
      }
      if (trace_["transform"] == "dct") {
        values = tensor::reference::tile_idct(slots, values.data(), kind.rows, kind.columns);
      }
      for (int y = 0; y < kind.rows; ++y) {
        std::copy_n(values.begin() + y * kind.columns, kind.columns,
                    out.begin() + place.offset - start + y * place.stride);
      }
    }
    return out;
  }

  tensor::SafetensorsReader golden_;
  json trace_;
};

INSTANTIATE_TEST_SUITE_P(Traces, DistroGolden,
                         testing::Values("fp32", "kfixed", "bf16", "int8", "int8_feedback", "1bit",
                                         "1bit_feedback", "mean_of_all", "sgd", "adamw", "muon",
                                         "muon_overlap", "identity", "missing", "clip", "chunk64",
                                         "overlap", "overlap_adamw", "look_ahead", "stateless",
                                         "stateless_clip", "stateless_sign", "stateless_adamw",
                                         "stateless_overlap", "norm_clipping", "trimmed_mean",
                                         "majority_vote", "summed", "summed_all", "summed_overlap",
                                         "summed_stateless"),
                         [](const auto& name) { return std::string(name.param); });

TEST_P(DistroGolden, WeightsFollowTheTrace) {
  HashedRun run(run_options());
  const auto rates = golden_.read_f32("lr");
  for (size_t step = 1; step <= rates.size(); ++step) {
    ASSERT_TRUE(run.step(rates[step - 1]));
    if (step % 5 != 0) continue;
    for (size_t tensor = 0; tensor < run.replicas().layout().size(); ++tensor) {
      const std::string& name = run.replicas().layout().specs()[tensor].name;
      const auto expected = golden_.read_f32(fmt::format("after.{}.{}", step, name));
      for (int worker = 0; worker < run.replicas().members(); ++worker) {
        ASSERT_THAT(run.params(worker, tensor), Pointwise(FloatNear(kTolerance), expected))
            << name << " after step " << step;
      }
    }
  }
}

TEST_P(DistroGolden, StateAndNormsFollowTheTrace) {
  HashedRun run(run_options());
  const tensor::Layout& layout = run.replicas().layout();
  const auto rates = golden_.read_f32("lr");
  const auto norms = golden_.contains("norm") ? golden_.read_f32("norm") : std::vector<float>();
  for (size_t step = 0; step < rates.size(); ++step) {
    ASSERT_TRUE(run.step(rates[step]));
    if (norms.empty()) continue;
    EXPECT_NEAR(run.norm(1), norms[3 * step + 1], 1e-5);
  }
  const auto& options = run.recipe().section<method::DistroOptions>("distro");
  const codec::DistroTiles tiles(options, layout);
  // Without the learning rate the momentum is hundreds of times larger, and so is its rounding.
  const float tolerance = options.update == method::DistroUpdate::kAdamW ? 1e-5f : kTolerance;
  for (size_t tensor = 0; tensor < layout.size(); ++tensor) {
    const std::string& name = layout.specs()[tensor].name;
    for (int worker = 0; worker < (options.stateless() ? 0 : run.replicas().members()); ++worker) {
      const auto expected = golden_.read_f32(fmt::format("delta.{}.{}", worker, name));
      EXPECT_THAT(momentum(run.state(worker, "distro.momentum"), tiles, layout, tensor),
                  Pointwise(FloatNear(tolerance), expected))
          << name;
    }
    if (options.update != method::DistroUpdate::kAdamW) continue;
    for (const char* moment : {"m", "v"}) {
      const auto state = run.state(0, fmt::format("adamw.{}", moment))
                             .subspan(static_cast<size_t>(layout.offset(tensor)),
                                      static_cast<size_t>(layout.specs()[tensor].count()));
      const auto expected = golden_.read_f32(fmt::format("adam_{}.{}", moment, name));
      // Squares of gradients without the learning rate are not small.
      const float largest = *std::ranges::max_element(expected);
      EXPECT_THAT(state, Pointwise(FloatNear(kTolerance * std::max(largest, 1.0f)), expected))
          << name;
    }
  }
}

class DistroMuonGolden : public DistroGolden {};

INSTANTIATE_TEST_SUITE_P(Traces, DistroMuonGolden, testing::Values("muon", "muon_overlap"),
                         [](const auto& name) { return std::string(name.param); });

TEST_P(DistroMuonGolden, MomentumOfAggregatesFollowsTheTrace) {
  HashedRun run(run_options());
  for (const float rate : golden_.read_f32("lr")) ASSERT_TRUE(run.step(rate));
  const tensor::Layout& layout = run.replicas().layout();
  size_t begin = 0;
  for (size_t tensor = 0; tensor < layout.size(); ++tensor) {
    const TensorSpec& spec = layout.specs()[tensor];
    if (!spec.is_hidden_matrix()) continue;
    const auto size = static_cast<size_t>(spec.count());
    const auto expected = golden_.read_f32("muon." + spec.name);
    EXPECT_THAT(run.state(0, "distro.muon").subspan(begin, size),
                Pointwise(FloatNear(kTolerance), expected))
        << spec.name;
    begin += static_cast<size_t>(padded_elements(spec.count()));
  }
}

TEST_P(DistroGolden, FirstPayloadHoldsTheTracesSlotsAndValues) {
  Bytes payload;
  HashedRunOptions with_tap = run_options();
  with_tap.tamper = [&](uint64_t, int worker, Bytes& sent) {
    if (worker == 0) payload = sent;
  };
  HashedRun run(with_tap);
  const auto rates = golden_.read_f32("lr");
  for (size_t step = 0; payload.empty(); ++step) ASSERT_TRUE(run.step(rates[step]));
  const auto& options = run.recipe().section<method::DistroOptions>("distro");
  const codec::DistroTiles tiles(options, run.replicas().layout());
  codec::SparseTiles sent(tiles.shapes());
  const auto body = std::span(payload).subspan(kPayloadHeaderBytes);
  ASSERT_TRUE(codec::decode_sparse(tiles.shapes(), options.values, body, sent));
  for (size_t tensor = 0; tensor < tiles.shapes().size(); ++tensor) {
    const std::string& name = run.replicas().layout().specs()[tensor].name;
    const auto slots = golden_.read_integers("sent_idx." + name);
    const auto values = golden_.read_f32("sent_val." + name);
    const auto first = static_cast<size_t>(tiles.shapes()[tensor].first_kept);
    for (size_t i = 0; i < slots.size(); ++i) {
      ASSERT_EQ(sent.slots[first + i], slots[i]) << name;
      ASSERT_NEAR(sent.values[first + i], values[i], kTolerance) << name;
    }
    if (golden_.contains("sent_scale." + name)) {
      EXPECT_EQ(sent.scales[tensor], golden_.read_f32("sent_scale." + name)[0]) << name;
    }
  }
}

}  // namespace
}  // namespace thinwire::sync
