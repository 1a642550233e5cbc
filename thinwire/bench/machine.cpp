#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/half.h"
#include "thinwire/base/threads.h"
#include "thinwire/bench/speed.h"
#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/products/gemm.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

namespace thinwire::bench {
namespace {

using tensor::AlignedBuffer;
using tensor::Transpose;

constexpr int64_t kProductSize = 1536;
constexpr int64_t kMemoryFloats = int64_t{1} << 26;  // 256 MiB
constexpr int64_t kMemoryGrain = 4096;

// The shortest of the calls that fit into `seconds`, at least two: the first one touches memory and
// wakes threads.
template <typename Body>
double best_seconds(double seconds, const Body& body) {
  body();
  double best = 0;
  const Stopwatch all;
  do {
    const Stopwatch one;
    body();
    const double now = one.seconds();
    best = best == 0 ? now : std::min(best, now);
  } while (all.seconds() < seconds);
  return best;
}

template <typename T>
double gemm_rate(ThreadPool& threads, T value, double seconds) {
  constexpr int64_t n = kProductSize;
  AlignedBuffer<T> a(n * n), b(n * n);
  AlignedBuffer<float> c(n * n);
  std::fill_n(a.data(), n * n, value);
  std::fill_n(b.data(), n * n, value);
  const double best = best_seconds(seconds, [&] {
    tensor::gemm(threads, Transpose::kNo, Transpose::kYes, n, n, n, static_cast<const T*>(a.data()),
                 n, static_cast<const T*>(b.data()), n, 0.0f, c.data(), n);
  });
  return 2.0 * n * n * n / best;
}

}  // namespace

MachineSpeed measure_machine(int thread_count, double seconds) {
  ThreadPool threads(thread_count);
  MachineSpeed speed{.threads = thread_count};
  speed.gemm_fp32 = gemm_rate(threads, 0.5f, seconds);
  speed.gemm_bf16 = gemm_rate(threads, to_bf16(0.5f), seconds);

  AlignedBuffer<float> from(kMemoryFloats), to(kMemoryFloats);
  constexpr double kBytes = sizeof(float) * kMemoryFloats;
  const auto in_slices = [&](const auto& body) {
    threads.for_ranges(kMemoryFloats, kMemoryGrain, body);
  };
  in_slices([&](int64_t begin, int64_t end, int) {
    std::fill_n(from.data() + begin, end - begin, 0.0f);
    std::fill_n(to.data() + begin, end - begin, 0.0f);
  });
  std::vector<float> sums(static_cast<size_t>(kMemoryFloats / kMemoryGrain));
  speed.read = kBytes / best_seconds(seconds, [&] {
                 in_slices([&](int64_t begin, int64_t end, int) {
                   const float* const first = from.data() + begin;
                   tensor::kernels<float>().row_dots((end - begin) / kMemoryGrain, kMemoryGrain,
                                                     first, kMemoryGrain, first, kMemoryGrain,
                                                     sums.data() + begin / kMemoryGrain);
                 });
               });
  speed.copy = 2 * kBytes / best_seconds(seconds, [&] {
                 in_slices([&](int64_t begin, int64_t end, int) {
                   std::memcpy(to.data() + begin, from.data() + begin,
                               static_cast<size_t>(end - begin) * sizeof(float));
                 });
               });
  return speed;
}

}  // namespace thinwire::bench
