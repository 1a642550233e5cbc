// DisTrO with GaLore in seeded bases against the trace of tests/golden/make_distro_galore.py, an
// independent implementation, over renewals from which a worker's payload is missing.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/paths.h"
#include "tests/sync/distro_trace.h"
#include "tests/sync/hashed_run.h"
#include "thinwire/base/block_sizes.h"
#include "thinwire/base/json.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::sync {
namespace {

using nlohmann::json;
using testing::Each;
using testing::FloatNear;
using testing::Pointwise;

constexpr float kTolerance = 1e-6f;

class DistroGalore : public testing::Test {
 protected:
  HashedRunOptions run_options() const {
    HashedRunOptions options = options_of_trace(trace_);
    options.recipe = fmt::format(
        "[run]\nseed = {}\n[sync]\nmethod = \"distro\"\n[train]\nsteps = {}\n"
        "[optim]\nmethod = \"galore\"\ngradients = \"projected\"\nweight_decay = {}\nclip = 0\n"
        "[galore]\nbasis = \"seeded\"\nrank = {}\nrefresh = {}\nscale = {}\n"
        "[adamw]\nbeta1 = {}\nbeta2 = {}\neps = {}\n"
        "[distro]\nupdate = \"adamw\"\nvalues = \"fp32\"\nchunk = {}\nk = {}\ndecay = {}\n",
        number("run_seed"), number("steps"), number("wd"), number("rank"), number("every"),
        number("scale"), print_json(trace_["betas"][0]), print_json(trace_["betas"][1]),
        number("eps"), number("chunk"), number("k"), number("decay"));
    return options;
  }
  std::string number(const char* key) const { return print_json(trace_[key]); }

  tensor::SafetensorsReader golden_{tests::source_file("tests/golden/distro_galore.safetensors")};
  json trace_ = parse_json<json>(golden_.metadata().at("options"));
};

TEST_F(DistroGalore, FollowsTheTraceOverRenewals) {
  HashedRun run(run_options());
  const std::vector<float> rates = golden_.read_f32("lr");
  const auto specs = run.replicas().layout().specs();
  for (size_t step = 1; step <= rates.size(); ++step) {
    ASSERT_TRUE(run.step(rates[step - 1]));
    for (size_t tensor = 0; tensor < specs.size(); ++tensor) {
      const auto expected = golden_.read_f32(fmt::format("after.{}.{}", step, specs[tensor].name));
      for (int worker = 0; worker < run.replicas().members(); ++worker) {
        ASSERT_THAT(run.params(worker, tensor), Pointwise(FloatNear(kTolerance), expected))
            << specs[tensor].name << " after step " << step;
      }
    }
  }
  size_t begin = 0;
  for (const TensorSpec& spec : specs) {
    if (!spec.is_hidden_matrix()) continue;
    for (const char* moment : {"m", "v"}) {
      const auto expected = golden_.read_f32(fmt::format("{}.{}", moment, spec.name));
      EXPECT_THAT(run.state(0, fmt::format("galore.{}", moment)).subspan(begin, expected.size()),
                  Pointwise(FloatNear(kTolerance), expected))
          << spec.name;
      if (moment[0] == 'v') begin += padded_elements(int64_t(expected.size()));
    }
  }
}

// The last step renews the last tensor's basis, and no other's.
TEST_F(DistroGalore, ForgetsTheMomentumOfATensorWhoseBasisIsRenewed) {
  HashedRun run(run_options());
  for (const float rate : golden_.read_f32("lr")) ASSERT_TRUE(run.step(rate));
  const tensor::Layout& layout = run.replicas().gradients(0).layout();
  for (int worker = 0; worker < run.replicas().members(); ++worker) {
    const auto momentum = run.state(worker, "distro.momentum");
    for (size_t tensor = 0; tensor < layout.size(); ++tensor) {
      const auto own =
          momentum.subspan(size_t(layout.offset(tensor)), size_t(layout.specs()[tensor].count()));
      const bool renewed = layout.specs()[tensor].name == "square";
      EXPECT_EQ(std::ranges::all_of(own, [](float value) { return value == 0; }), renewed);
    }
  }
}

}  // namespace
}  // namespace thinwire::sync
