#include <algorithm>
#include <array>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/secrets.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/sync/private_sum.h"

namespace thinwire::sync {
namespace {

constexpr int64_t kPiece = 4096;
constexpr double kGridExponent = -20;

void scale(std::span<float> values, double factor, ThreadPool& threads) {
  threads.for_ranges(std::ssize(values), kPiece, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      float& value = values[static_cast<size_t>(i)];
      value = static_cast<float>(factor * value);
    }
  });
}

// values = factor * values + deviation * noise, each rounded to a multiple of 2^-20 deviation (or
// up to twice that), a power of two. fp32 rounds what is already on this grid, so its last bits
// tell nothing of what the noise was added to (Mironov 2012).
void scale_and_add(std::span<float> values, double factor, double deviation, ThreadPool& threads) {
  const double grid = std::exp2(std::ceil(std::log2(deviation)) + kGridExponent);
  threads.for_ranges(std::ssize(values), kPiece, [&](int64_t begin, int64_t end, int) {
    std::array<double, kPiece> noise = {};
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t count = std::min(kPiece, end - at);
      fill_secret_normals(std::span(noise).first(static_cast<size_t>(count)));
      for (int64_t i = 0; i < count; ++i) {
        float& value = values[static_cast<size_t>(at + i)];
        const double hidden = factor * value + deviation * noise[static_cast<size_t>(i)];
        value = static_cast<float>(std::nearbyint(hidden / grid) * grid);
      }
    }
  });
}

}  // namespace

void make_private(const config::PrivacySection& options, float weight, std::span<float> values,
                  ThreadPool& threads) {
  if (options.clip == 0) return;
  const double norm = optim::global_norm(values, threads) / weight;
  if (!std::isfinite(norm)) {
    throw Error("the weights are no longer finite; lower optim.lr or raise schedule.warmup");
  }
  double factor = norm > options.clip ? options.clip / norm : 1;
  if (options.noisy() && secret_uniform() >= options.sampling) factor = 0;
  factor /= options.sampling;
  if (!options.noisy()) return scale(values, factor, threads);
  const double deviation = weight * options.noise * options.clip;
  scale_and_add(values, factor, deviation / options.sampling, threads);
}

}  // namespace thinwire::sync
