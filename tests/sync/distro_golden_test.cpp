// DisTrO against the traces of tests/golden/make_distro.py, an independent implementation.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/sync/distro_cluster.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/method/distro.h"
#include "thinwire/sync/distro_encoder.h"
#include "thinwire/tensor/dct_reference.h"
#include "thinwire/tensor/safetensors.h"

namespace thinwire::sync {
namespace {

using nlohmann::json;
using testing::FloatNear;
using testing::Pointwise;

constexpr float kTolerance = 1e-6f;

class DistroGolden : public testing::TestWithParam<const char*> {
 protected:
  DistroGolden()
      : golden_(
            fmt::format("{}/tests/golden/distro_{}.safetensors", THINWIRE_SOURCE_DIR, GetParam())),
        trace_(json::parse(golden_.metadata().at("options"))) {}

  ClusterOptions cluster_options() const {
    ClusterOptions options;
    options.recipe = recipe_of(recipe());
    options.source.seed = std::stoull(trace_["seed"].get<std::string>(), nullptr, 16);
    options.source.param_scale = trace_["param_scale"];
    options.learning_rates = golden_.read_f32("lr");
    options.workers = trace_["workers"];
    for (const json& tensor : trace_["tensors"]) {
      const Shape shape = tensor["shape"];
      const TensorRole role = shape.size() == 1 ? TensorRole::kNorm : TensorRole::kMatrix;
      options.tensors.push_back({tensor["name"], shape, role});
      options.source.scales.push_back(tensor["grad_scale"]);
    }
    options.missing = [this](uint64_t step) {
      for (const json& gap : trace_["missing"]) {
        if (gap["step"] == step) return gap["workers"].get<std::set<int>>();
      }
      return std::set<int>();
    };
    return options;
  }

  std::string recipe() const {
    const auto text = [&](const char* key) { return trace_[key].get<std::string>(); };
    return fmt::format(
        "[sync]\nmethod = \"distro\"\n"
        "[optim]\nbeta1 = {}\nbeta2 = {}\neps = {}\nweight_decay = {}\nclip = {}\n"
        "[distro]\nchunk = {}\nk = {}\nfixed_k = {}\ndecay = {}\nvalues = \"{}\"\nfeedback = {}\n"
        "aggregate = \"{}\"\nupdate = \"{}\"\ntransform = \"{}\"\n",
        trace_["betas"][0].dump(), trace_["betas"][1].dump(), trace_["eps"].dump(),
        trace_["wd"].dump(), trace_["clip"].dump(), trace_["chunk"].dump(), trace_["k"].dump(),
        text("k_rule") == "fixed", trace_["decay"].dump(), text("values"),
        trace_["feedback"].dump(), text("aggregate"), text("update"), text("transform"));
  }

  // Momentum in the parameters' domain.
  std::vector<float> momentum(const Cluster& cluster, const DistroTiles& tiles, int worker,
                              size_t tensor) const {
    const std::vector<float> state = cluster.state(worker, "distro.momentum");
    const TileKind& kind = tiles.kind(tensor);
    const int64_t start = cluster.layout().offset(tensor);
    std::vector<float> out(static_cast<size_t>(cluster.layout().specs()[tensor].count()));
    for (int64_t tile = 0; tile < tiles.shapes()[tensor].tiles; ++tile) {
      const TilePlace place = tiles.place(tensor, tile);
      std::vector<uint16_t> slots;
      std::vector<float> values;
      for (int slot = 0; slot < kind.slots(); ++slot) {
        const int position = slot % kind.columns * kind.rows + slot / kind.columns;
        slots.push_back(static_cast<uint16_t>(slot));
        values.push_back(state[static_cast<size_t>(start + tile * kind.slots() + position)]);
      }
      if (trace_["transform"] == "dct") {
        values = tensor::tile_idct_reference(slots, values.data(), kind.rows, kind.columns);
      }
      for (int y = 0; y < kind.rows; ++y) {
        for (int x = 0; x < kind.columns; ++x) {
          out[static_cast<size_t>(place.offset - start + y * place.stride + x)] =
              values[static_cast<size_t>(y * kind.columns + x)];
        }
      }
    }
    return out;
  }

  tensor::SafetensorsReader golden_;
  json trace_;
};

INSTANTIATE_TEST_SUITE_P(Traces, DistroGolden,
                         testing::Values("fp32", "kfixed", "bf16", "int8", "int8_feedback", "1bit",
                                         "1bit_feedback", "mean_of_all", "sgd", "adamw", "identity",
                                         "missing", "clip", "chunk64"),
                         [](const auto& name) { return std::string(name.param); });

TEST_P(DistroGolden, WeightsFollowTheTrace) {
  Cluster cluster(cluster_options());
  for (int step = 5; step <= trace_["steps"]; step += 5) {
    cluster.run(5);
    ASSERT_THAT(cluster.failures(), testing::IsEmpty());
    for (size_t tensor = 0; tensor < cluster.layout().size(); ++tensor) {
      const std::string& name = cluster.layout().specs()[tensor].name;
      const auto expected = golden_.read_f32(fmt::format("after.{}.{}", step, name));
      for (int worker = 0; worker < 3; ++worker) {
        const auto params = cluster.params(worker, tensor);
        ASSERT_THAT(params, Pointwise(FloatNear(kTolerance), expected))
            << name << " after step " << step;
      }
    }
  }
}

TEST_P(DistroGolden, StateFollowsTheTrace) {
  const ClusterOptions options = cluster_options();
  Cluster cluster(options);
  cluster.run(trace_["steps"]);
  const DistroTiles tiles(options.recipe.section<method::DistroOptions>("distro"),
                          cluster.layout());
  for (size_t tensor = 0; tensor < cluster.layout().size(); ++tensor) {
    const std::string& name = cluster.layout().specs()[tensor].name;
    for (int worker = 0; worker < 3; ++worker) {
      const auto expected = golden_.read_f32(fmt::format("delta.{}.{}", worker, name));
      // Gradients of one tensor are as large as 2, so its momentum has fewer digits behind the
      // point.
      EXPECT_THAT(
          momentum(cluster, tiles, worker, tensor),
          Pointwise(
              FloatNear(options.recipe.section<method::DistroOptions>("distro").update == "adamw"
                            ? 1e-5f
                            : kTolerance),
              expected))
          << name;
    }
    if (!golden_.contains("adam_m." + name)) continue;
    const auto begin = static_cast<std::ptrdiff_t>(cluster.layout().offset(tensor));
    const auto count = cluster.layout().specs()[tensor].count();
    for (const char* moment : {"m", "v"}) {
      const auto state = cluster.state(0, fmt::format("adamw.{}", moment));
      EXPECT_THAT(std::vector<float>(state.begin() + begin, state.begin() + begin + count),
                  Pointwise(FloatNear(kTolerance),
                            golden_.read_f32(fmt::format("adam_{}.{}", moment, name))))
          << name;
    }
  }
  if (golden_.contains("norm")) {
    const auto norms = golden_.read_f32("norm");
    for (size_t step = 0; step < norms.size() / 3; ++step) {
      EXPECT_NEAR(cluster.norms(1)[step], norms[3 * step + 1], 1e-5);
    }
  }
}

TEST_P(DistroGolden, FirstPayloadHoldsTheTracesSlotsAndValues) {
  Bytes payload;
  ClusterOptions options = cluster_options();
  options.tamper = [&](uint64_t step, int worker, Bytes& sent) {
    if (step == 0 && worker == 0) payload = sent;
  };
  Cluster cluster(options);
  cluster.run(1);
  const auto& distro = options.recipe.section<method::DistroOptions>("distro");
  const DistroTiles tiles(distro, cluster.layout());
  codec::SparseTiles sent(tiles.shapes());
  const std::span<const uint8_t> body(payload.data() + codec::kPayloadHeaderBytes,
                                      payload.size() - codec::kPayloadHeaderBytes);
  ASSERT_TRUE(codec::decode_sparse(tiles.shapes(), value_coding(distro.values), body, sent));
  for (size_t tensor = 0; tensor < cluster.layout().size(); ++tensor) {
    const std::string& name = cluster.layout().specs()[tensor].name;
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
