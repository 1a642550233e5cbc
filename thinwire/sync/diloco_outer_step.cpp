#include "thinwire/sync/diloco_outer_step.h"

#include <algorithm>
#include <array>

#include "thinwire/base/error.h"
#include "thinwire/base/simd.h"

namespace thinwire::sync {
namespace {

constexpr int64_t kGrain = 1024;
// Values coded at once; a multiple of every codec's block.
constexpr int64_t kChunk = 4096;

// All loops are elementwise and free of contraction: the same bits at any vector width.
THINWIRE_CLONES void take_way(const float* __restrict start, const float* __restrict params,
                              float* __restrict out, int64_t count, float weight) {
  for (int64_t i = 0; i < count; ++i) out[i] = weight * (start[i] - params[i]);
}

THINWIRE_CLONES void take_corrected_way(const float* __restrict shared,
                                        const float* __restrict correction,
                                        const float* __restrict params, float* __restrict out,
                                        int64_t count, float weight) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = weight * (shared[i] + correction[i] - params[i]);
  }
}

THINWIRE_CLONES void add(const float* __restrict values, float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] += values[i];
}

THINWIRE_CLONES void subtract(const float* __restrict from, const float* __restrict values,
                              float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = from[i] - values[i];
}

THINWIRE_CLONES void add_to(const float* __restrict left, const float* __restrict right,
                            float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = left[i] + right[i];
}

THINWIRE_CLONES void mix(const float* __restrict shared, float* __restrict params, int64_t count,
                         float share) {
  const float rest = 1 - share;
  for (int64_t i = 0; i < count; ++i) params[i] = rest * shared[i] + share * params[i];
}

THINWIRE_CLONES void plain_step(float* __restrict target, const float* __restrict way,
                                int64_t count, float rate) {
  for (int64_t i = 0; i < count; ++i) target[i] -= rate * way[i];
}

THINWIRE_CLONES void momentum_step(float* __restrict target, float* __restrict velocity,
                                   const float* __restrict way, int64_t count, float rate,
                                   float momentum) {
  for (int64_t i = 0; i < count; ++i) {
    velocity[i] = momentum * velocity[i] + way[i];
    target[i] -= rate * velocity[i];
  }
}

THINWIRE_CLONES void nesterov_step(float* __restrict target, float* __restrict velocity,
                                   const float* __restrict way, int64_t count, float rate,
                                   float momentum) {
  for (int64_t i = 0; i < count; ++i) {
    velocity[i] = momentum * velocity[i] + way[i];
    target[i] -= rate * (way[i] + momentum * velocity[i]);
  }
}

// The values as receivers get them.
void pass(const WireCodec& codec, std::span<const float> values, std::span<float> out) {
  std::array<uint8_t, kChunk * sizeof(float)> bytes;
  const std::span coded(bytes.data(), wire_bytes(codec.type, values.size()));
  codec.encode(values, coded);
  if (codec.decode(coded, out)) return;
  throw Error("the weights stopped being finite; lower optim.lr or raise schedule.warmup");
}

}  // namespace

OuterStep::OuterStep(const method::DilocoOptions& options, const WireCodec& codec,
                     tensor::Arena& shared, tensor::Arena& params, ThreadPool& threads)
    : options_(options), codec_(codec), shared_(shared), params_(params), threads_(threads) {
  const auto total = static_cast<size_t>(shared.layout().total());
  if (options.has_momentum()) velocity_.resize(total);
  if (options.error_feedback) error_.resize(total);
  if (!options.eager()) return;
  correction_.resize(total);
  if (options.has_momentum()) correction_velocity_.resize(total);
}

template <typename Body>
void OuterStep::for_pieces(const DilocoFragment& fragment, const Body& body) {
  for (const FragmentPiece& piece : fragment.pieces) {
    threads_.for_ranges(piece.count, kGrain, [&](int64_t begin, int64_t end, int) {
      body(piece.arena + begin, piece.buffer + begin, end - begin);
    });
  }
}

void OuterStep::offer(const DilocoFragment& fragment, float weight, std::span<float> out) {
  const float* shared = std::as_const(shared_).all().data();
  const float* params = std::as_const(params_).all().data();
  for_pieces(fragment, [&](int64_t arena, int64_t buffer, int64_t count) {
    float* const offered = out.data() + (buffer - fragment.begin);
    if (correction_.empty()) {
      take_way(shared + arena, params + arena, offered, count, weight);
    } else {
      take_corrected_way(shared + arena, correction_.data() + buffer, params + arena, offered,
                         count, weight);
    }
    if (!error_.empty()) add(error_.data() + buffer, offered, count);
  });
  for (const FragmentPiece& piece : fragment.pieces) {
    std::fill_n(out.begin() + (piece.buffer - fragment.begin) + piece.count, piece.gap, 0.0f);
  }
}

void OuterStep::step(float* target, float* velocity, const float* way, int64_t count) const {
  using method::OuterOptimizer;
  const auto rate = static_cast<float>(options_.outer_lr);
  const auto momentum = static_cast<float>(options_.outer_momentum);
  switch (options_.outer) {
    case OuterOptimizer::kNesterov:
      return nesterov_step(target, velocity, way, count, rate, momentum);
    case OuterOptimizer::kMomentum:
      return momentum_step(target, velocity, way, count, rate, momentum);
    case OuterOptimizer::kSgd:
      return plain_step(target, way, count, rate);
    case OuterOptimizer::kAverage:
      return plain_step(target, way, count, 1);
  }
}

void OuterStep::sent(const DilocoFragment& fragment, std::span<const float> offered,
                     std::span<const float> late) {
  threads_.for_ranges(fragment.count, kChunk, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; at += kChunk) {
      const auto first = static_cast<size_t>(at);
      const auto count = static_cast<size_t>(std::min(kChunk, end - at));
      sent_chunk(fragment.begin + at, offered.subspan(first, count),
                 late.empty() ? late : late.subspan(first, count));
    }
  });
}

void OuterStep::sent_chunk(int64_t place, std::span<const float> offered,
                           std::span<const float> late) {
  const auto count = static_cast<int64_t>(offered.size());
  std::array<float, kChunk> passed;
  const std::span fresh(passed.data(), offered.size());
  pass(codec_, offered, fresh);
  if (!error_.empty()) subtract(offered.data(), fresh.data(), error_.data() + place, count);
  if (correction_.empty()) return;
  if (!late.empty()) {
    std::array<float, kChunk> passed_late;
    const std::span old(passed_late.data(), late.size());
    pass(codec_, late, old);
    plain_step(fresh.data(), old.data(), count, 1);
  }
  step(correction_.data() + place,
       correction_velocity_.empty() ? nullptr : correction_velocity_.data() + place, fresh.data(),
       count);
}

void OuterStep::apply(const DilocoFragment& fragment, std::span<const float> mean) {
  float* shared = shared_.all().data();
  for_pieces(fragment, [&](int64_t arena, int64_t buffer, int64_t count) {
    step(shared + arena, velocity_.empty() ? nullptr : velocity_.data() + buffer,
         mean.data() + (buffer - fragment.begin), count);
  });
}

void OuterStep::follow(const DilocoFragment& fragment) {
  const float* shared = std::as_const(shared_).all().data();
  float* params = params_.all().data();
  for_pieces(fragment, [&](int64_t arena, int64_t buffer, int64_t count) {
    if (correction_.empty()) {
      std::copy_n(shared + arena, count, params + arena);
    } else {
      add_to(shared + arena, correction_.data() + buffer, params + arena, count);
    }
  });
}

void OuterStep::blend(const DilocoFragment& fragment) {
  const float* shared = std::as_const(shared_).all().data();
  float* params = params_.all().data();
  for_pieces(fragment, [&](int64_t arena, int64_t, int64_t count) {
    mix(shared + arena, params + arena, count, static_cast<float>(options_.mix));
  });
}

void OuterStep::settle(const DilocoFragment& fragment) {
  for (std::vector<float>* values : {&correction_, &correction_velocity_}) {
    if (!values->empty()) std::fill_n(values->begin() + fragment.begin, fragment.count, 0.0f);
  }
}

void OuterStep::forget() {
  for (std::vector<float>* values : {&correction_, &correction_velocity_, &error_}) {
    std::ranges::fill(*values, 0.0f);
  }
}

std::vector<StateTensor> OuterStep::state() {
  std::vector<StateTensor> state;
  const auto add = [&](const char* name, std::vector<float>& values, Agreement agreement) {
    if (!values.empty()) state.push_back({name, values, agreement});
  };
  add("outer.velocity", velocity_, Agreement::kConsensus);
  add("local.correction", correction_, Agreement::kLocal);
  add("local.correction_velocity", correction_velocity_, Agreement::kLocal);
  add("local.error", error_, Agreement::kLocal);
  return state;
}

}  // namespace thinwire::sync
