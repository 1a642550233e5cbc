#include "thinwire/sync/private_contribution.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/secret_noise.h"
#include "thinwire/optim/optimizer.h"

namespace thinwire::sync {
namespace {

constexpr int64_t kPiece = 4096;

// values = factor * values + deviation * noise.
void scale_and_add(std::span<float> values, double factor, double deviation, ThreadPool& threads) {
  threads.for_ranges(std::ssize(values), kPiece, [&](int64_t begin, int64_t end, int) {
    std::array<float, kPiece> noise = {};
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t count = std::min(kPiece, end - at);
      if (deviation > 0) fill_secret_normals(std::span(noise).first(static_cast<size_t>(count)));
      for (int64_t i = 0; i < count; ++i) {
        float& value = values[static_cast<size_t>(at + i)];
        value = static_cast<float>(factor * value + deviation * noise[static_cast<size_t>(i)]);
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
  const double deviation = weight * options.noise * options.clip;
  scale_and_add(values, factor / options.sampling, deviation / options.sampling, threads);
}

}  // namespace thinwire::sync
