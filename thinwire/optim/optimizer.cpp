#include "thinwire/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/simd.h"
#include "thinwire/optim/adamw.h"
#include "thinwire/optim/muon.h"

namespace thinwire::optim {
namespace {

constexpr std::array<OptimizerEntry, 2> kOptimizers = {
    {{"adamw", make_adamw}, {"muon", make_muon}}};

constexpr int64_t kNormBlock = 4096;
constexpr int kNormLanes = 16;

// Lane i sums the elements whose index is i modulo 16; the lanes are added in order. The graph is a
// function of the length alone.
THINWIRE_CLONES double sum_of_squares(const float* values, int64_t count) {
  double lanes[kNormLanes] = {};
  const int64_t whole = count / kNormLanes * kNormLanes;
  for (int64_t at = 0; at < whole; at += kNormLanes) {
    for (int lane = 0; lane < kNormLanes; ++lane) {
      const double value = values[at + lane];
      lanes[lane] += value * value;
    }
  }
  for (int64_t at = whole; at < count; ++at) {
    const double value = values[at];
    lanes[at - whole] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

std::span<const OptimizerEntry> all_optimizers() { return kOptimizers; }

std::unique_ptr<Optimizer> make_optimizer(const config::OptimSection& options,
                                          const tensor::Layout& layout) {
  std::string known;
  for (const OptimizerEntry& entry : kOptimizers) {
    if (entry.name == options.method) return entry.make(options, layout);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.name);
  }
  throw UsageError(
      fmt::format("[optim] method must be one of: {}; got '{}'", known, options.method));
}

double global_norm(std::span<const float> values, ThreadPool& threads) {
  const auto count = static_cast<int64_t>(values.size());
  std::vector<double> blocks(static_cast<size_t>((count + kNormBlock - 1) / kNormBlock));
  threads.for_each(static_cast<int64_t>(blocks.size()), [&](int64_t block) {
    const int64_t begin = block * kNormBlock;
    blocks[static_cast<size_t>(block)] =
        sum_of_squares(values.data() + begin, std::min(kNormBlock, count - begin));
  });
  double sum = 0;
  for (const double block : blocks) sum += block;
  return std::sqrt(sum);
}

float clip_scale(double norm, double clip) {
  if (clip <= 0) return 1;
  return static_cast<float>(std::min(1.0, clip / (norm + 1e-6)));
}

}  // namespace thinwire::optim
