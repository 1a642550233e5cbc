#include "thinwire/methods/diloco/diloco_outer_step.h"

#include <algorithm>
#include <array>

#include "thinwire/base/error.h"
#include "thinwire/base/simd.h"

namespace thinwire::sync {
namespace {

// Elements [begin, end) of a tensor, in whole lines.
struct Part {
  int64_t begin = 0;
  int64_t end = 0;
};

// The part of each tensor that is in a fragment.
class Partition {
 public:
  Partition(const tensor::Layout& layout, const method::FragmentRule& rule)
      : layout_(layout), slices_(rule.slices) {
    if (slices_ == 0) {
      of_ = method::fragments_of(layout.specs(), rule.layers);
    } else {
      method::fragment_elements(layout.specs(), rule, 0);  // throws
    }
  }

  int64_t fragments() const {
    return slices_ > 0 ? slices_ : *std::max_element(of_.begin(), of_.end()) + 1;
  }
  Part of(size_t tensor, int64_t fragment) const {
    const int64_t end = tensor + 1 < layout_.size() ? layout_.offset(tensor + 1) : layout_.total();
    const int64_t padded = end - layout_.offset(tensor);
    if (slices_ == 0) return {0, of_[tensor] == fragment ? padded : 0};
    return {method::slice_begin(padded, fragment, slices_),
            method::slice_begin(padded, fragment + 1, slices_)};
  }

 private:
  const tensor::Layout& layout_;
  const int64_t slices_;
  std::vector<int64_t> of_;  // the fragment of each tensor; empty with slices
};

}  // namespace

std::vector<DilocoFragment> diloco_fragments(const tensor::Layout& layout,
                                             const method::FragmentRule& rule) {
  const Partition partition(layout, rule);
  std::vector<DilocoFragment> fragments(static_cast<size_t>(partition.fragments()));
  int64_t place = 0;
  for (size_t f = 0; f < fragments.size(); ++f) {
    DilocoFragment& fragment = fragments[f];
    fragment.begin = place;
    for (size_t t = 0; t < layout.size(); ++t) {
      const Part part = partition.of(t, static_cast<int64_t>(f));
      if (part.begin == part.end) continue;
      const int64_t start = layout.offset(t) + part.begin;
      const int64_t end = layout.offset(t) + part.end;
      const int64_t count = std::min(end, layout.offset(t) + layout.specs()[t].count()) - start;
      FragmentPiece* last = fragment.pieces.empty() ? nullptr : &fragment.pieces.back();
      if (last != nullptr && last->gap == 0 && last->arena + last->count == start) {
        last->count += count;
        last->gap = end - start - count;
      } else {
        fragment.pieces.push_back({start, place, count, end - start - count});
      }
      place += end - start;
    }
    fragment.count = place - fragment.begin;
  }
  return fragments;
}

namespace {

constexpr int64_t kGrain = 1024;
constexpr int64_t kWalked = 1 << 20;  // values at a time where weights are in files
// Number of values quantised at once; a multiple of every codec's block.
constexpr int64_t kChunk = 4096;

// All loops are elementwise and free of contraction: the same bits at any vector width.
// `out` may be `params`.
THINWIRE_CLONES void take_difference(const float* __restrict start, const float* params, float* out,
                                     int64_t count, float weight) {
  for (int64_t i = 0; i < count; ++i) out[i] = weight * (start[i] - params[i]);
}

THINWIRE_CLONES void take_corrected_difference(const float* __restrict shared,
                                               const float* __restrict correction,
                                               const float* __restrict params,
                                               float* __restrict out, int64_t count, float weight) {
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

// `out` may be `values`.
THINWIRE_CLONES void divide(const float* values, float* out, int64_t count, float by) {
  for (int64_t i = 0; i < count; ++i) out[i] = values[i] / by;
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

THINWIRE_CLONES void plain_step(float* __restrict target, const float* __restrict gradient,
                                int64_t count, float rate) {
  for (int64_t i = 0; i < count; ++i) target[i] -= rate * gradient[i];
}

THINWIRE_CLONES void momentum_step(float* __restrict target, float* __restrict velocity,
                                   const float* __restrict gradient, int64_t count, float rate,
                                   float momentum) {
  for (int64_t i = 0; i < count; ++i) {
    velocity[i] = momentum * velocity[i] + gradient[i];
    target[i] -= rate * velocity[i];
  }
}

THINWIRE_CLONES void nesterov_step(float* __restrict target, float* __restrict velocity,
                                   const float* __restrict gradient, int64_t count, float rate,
                                   float momentum) {
  for (int64_t i = 0; i < count; ++i) {
    velocity[i] = momentum * velocity[i] + gradient[i];
    target[i] -= rate * (gradient[i] + momentum * velocity[i]);
  }
}

// out = the values as receivers get them.
void quantise(const WireCodec& codec, std::span<const float> values, std::span<float> out) {
  std::array<uint8_t, kChunk * sizeof(float)> bytes;
  const std::span encoded(bytes.data(), wire_bytes(codec.type, values.size()));
  codec.encode(values, encoded);
  if (codec.decode(encoded, out)) return;
  throw Error("the weights are no longer finite; lower optim.lr or raise schedule.warmup");
}

}  // namespace

OuterStep::OuterStep(const method::DilocoOptions& options, const WireCodec& codec,
                     tensor::Arena& shared, tensor::Arena& params, ThreadPool& threads)
    : options_(options), codec_(codec), shared_(shared), params_(params), threads_(threads) {
  const auto total = static_cast<size_t>(shared.layout().total());
  if (options.has_momentum()) {
    velocity_.emplace(shared.layout(), WeightFormat::kF32, shared.offload());
  }
  if (options.error_feedback && !options.keeps_error_in_weights()) error_.resize(total);
  if (!options.eager()) return;
  correction_.resize(total);
  if (options.has_momentum()) correction_velocity_.resize(total);
}

template <typename Body>
void OuterStep::for_pieces(const DilocoFragment& fragment, bool params_done, const Body& body) {
  for (const FragmentPiece& piece : fragment.pieces) {
    for (int64_t at = 0; at < piece.count; at += kWalked) {
      const int64_t arena = piece.arena + at, buffer = piece.buffer + at;
      const int64_t count = std::min(kWalked, piece.count - at);
      threads_.for_ranges(count, kGrain, [&](int64_t begin, int64_t end, int) {
        body(arena + begin, buffer + begin, end - begin);
      });
      shared_.release(arena, count);
      if (velocity_) velocity_->release(buffer, count);
      if (params_done) params_.release(arena, count);
    }
  }
}

void OuterStep::pseudo_gradient(const DilocoFragment& fragment, float weight,
                                std::span<float> out) {
  const float* shared = std::as_const(shared_).all().data();
  const float* params = std::as_const(params_).all().data();
  for_pieces(fragment, false, [&](int64_t arena, int64_t buffer, int64_t count) {
    float* const gradient = out.data() + (buffer - fragment.begin);
    if (correction_.empty()) {
      take_difference(shared + arena, params + arena, gradient, count, weight);
    } else {
      take_corrected_difference(shared + arena, correction_.data() + buffer, params + arena,
                                gradient, count, weight);
    }
    if (!error_.empty()) add(error_.data() + buffer, gradient, count);
  });
  for (const FragmentPiece& piece : fragment.pieces) {
    std::fill_n(out.begin() + (piece.buffer - fragment.begin) + piece.count, piece.gap, 0.0f);
  }
}

void OuterStep::step(float* target, float* velocity, const float* gradient, int64_t count) const {
  using method::OuterOptimizer;
  const auto rate = static_cast<float>(options_.outer_lr);
  const auto momentum = static_cast<float>(options_.outer_momentum);
  switch (options_.outer) {
    case OuterOptimizer::kNesterov:
      return nesterov_step(target, velocity, gradient, count, rate, momentum);
    case OuterOptimizer::kMomentum:
      return momentum_step(target, velocity, gradient, count, rate, momentum);
    case OuterOptimizer::kSgd:
      return plain_step(target, gradient, count, rate);
    case OuterOptimizer::kAverage:
      return plain_step(target, gradient, count, 1);
  }
}

void OuterStep::sent(const DilocoFragment& fragment, float weight, std::span<const float> gradient,
                     std::span<const float> late) {
  lost_.resize(options_.keeps_error_in_weights() ? gradient.size() : 0);
  threads_.for_ranges(fragment.count, kChunk, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; at += kChunk) {
      const auto first = static_cast<size_t>(at);
      const auto count = static_cast<size_t>(std::min(kChunk, end - at));
      sent_chunk(fragment, at, gradient.subspan(first, count),
                 late.empty() ? late : late.subspan(first, count));
    }
  });
  if (lost_.empty()) return;
  float* params = params_.all().data();
  for_pieces(fragment, true, [&](int64_t arena, int64_t buffer, int64_t count) {
    divide(lost_.data() + (buffer - fragment.begin), params + arena, count, weight);
  });
}

void OuterStep::sent_chunk(const DilocoFragment& fragment, int64_t at,
                           std::span<const float> gradient, std::span<const float> late) {
  const int64_t place = fragment.begin + at;
  const auto count = static_cast<int64_t>(gradient.size());
  std::array<float, kChunk> values;
  const std::span received(values.data(), gradient.size());
  quantise(codec_, gradient, received);
  if (!error_.empty()) subtract(gradient.data(), received.data(), error_.data() + place, count);
  if (!lost_.empty()) subtract(gradient.data(), received.data(), lost_.data() + at, count);
  if (correction_.empty()) return;
  if (!late.empty()) {
    std::array<float, kChunk> late_values;
    const std::span late_received(late_values.data(), late.size());
    quantise(codec_, late, late_received);
    plain_step(received.data(), late_received.data(), count, 1);
  }
  step(correction_.data() + place,
       correction_velocity_.empty() ? nullptr : correction_velocity_.data() + place,
       received.data(), count);
}

void OuterStep::add_back(const DilocoFragment& fragment, float weight,
                         std::span<const float> gradient) {
  lost_.resize(error_.empty() ? gradient.size() : 0);
  threads_.for_ranges(fragment.count, kChunk, [&](int64_t begin, int64_t end, int) {
    std::array<float, kChunk> values;
    for (int64_t at = begin; at < end; at += kChunk) {
      const int64_t count = std::min(kChunk, end - at);
      const auto first = static_cast<size_t>(at), length = static_cast<size_t>(count);
      const std::span received = std::span(values).first(length);
      quantise(codec_, gradient.subspan(first, length), received);
      if (error_.empty()) {
        std::ranges::copy(received, lost_.begin() + at);
      } else {
        add(received.data(), error_.data() + fragment.begin + at, count);
      }
    }
  });
  if (!error_.empty()) return;
  float* params = params_.all().data();
  for_pieces(fragment, true, [&](int64_t arena, int64_t buffer, int64_t count) {
    float* const lost = lost_.data() + (buffer - fragment.begin);
    divide(lost, lost, count, weight);
    add(lost, params + arena, count);
  });
}

void OuterStep::turn(const DilocoFragment& fragment) {
  const float* shared = std::as_const(shared_).all().data();
  float* params = params_.all().data();
  for_pieces(fragment, true, [&](int64_t arena, int64_t, int64_t count) {
    take_difference(shared + arena, params + arena, params + arena, count, 1);
  });
}

void OuterStep::apply(const DilocoFragment& fragment, std::span<const float> mean) {
  float* shared = shared_.all().data();
  for_pieces(fragment, false, [&](int64_t arena, int64_t buffer, int64_t count) {
    step(shared + arena, velocity(buffer), mean.data() + (buffer - fragment.begin), count);
  });
}

void OuterStep::follow(const DilocoFragment& fragment) {
  const float* shared = std::as_const(shared_).all().data();
  float* params = params_.all().data();
  for_pieces(fragment, true, [&](int64_t arena, int64_t buffer, int64_t count) {
    if (correction_.empty()) {
      std::copy_n(shared + arena, count, params + arena);
    } else {
      add_to(shared + arena, correction_.data() + buffer, params + arena, count);
    }
  });
  for (const FragmentPiece& piece : fragment.pieces) {
    std::fill_n(params + piece.arena + piece.count, piece.gap, 0.0f);
  }
}

void OuterStep::blend(const DilocoFragment& fragment) {
  const float* shared = std::as_const(shared_).all().data();
  float* params = params_.all().data();
  for_pieces(fragment, true, [&](int64_t arena, int64_t, int64_t count) {
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
  const auto add = [&](std::string name, std::vector<float>& values, Agreement agreement) {
    if (!values.empty()) state.emplace_back(std::move(name), values, agreement);
  };
  if (velocity_) state.emplace_back("outer.velocity", velocity_->all(), Agreement::kConsensus);
  add("local.correction", correction_, Agreement::kLocal);
  add("local.correction_velocity", correction_velocity_, Agreement::kLocal);
  add("local.error", error_, Agreement::kLocal);
  return state;
}

}  // namespace thinwire::sync
