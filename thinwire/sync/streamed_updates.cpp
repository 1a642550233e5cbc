#include "thinwire/sync/streamed_updates.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/simd.h"

namespace thinwire::sync {
namespace {

THINWIRE_CLONES void scaled_copy(const float* __restrict from, float* __restrict to, int64_t count,
                                 float factor) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] * factor;
}

}  // namespace

StreamedUpdates::StreamedUpdates(const Worker& worker, optim::Optimizer& optimizer,
                                 Clipping& clipping, const WireCodec& codec, MemberSum& sum,
                                 SharedBases& bases)
    : worker_(worker),
      optimizer_(optimizer),
      clipping_(clipping),
      codec_(codec),
      sum_(sum),
      bases_(bases),
      groups_(gradient_groups(worker.params.layout().specs())),
      places_(worker.params.layout().size()) {
  for (const TensorSpec& tensor : worker.params.layout().specs()) {
    const int64_t count = element_count(method::gradient_shape(worker.spec.optim, tensor));
    counts_.push_back(static_cast<size_t>(count));
  }
  for (const GradientGroup& group : groups_) {
    size_t& size = sizes_.emplace_back(0);
    for (const size_t tensor : group.tensors) {
      places_[tensor] = size;
      size += static_cast<size_t>(padded_elements(static_cast<int64_t>(counts_[tensor])));
    }
  }
}

transport::Key StreamedUpdates::key(const Round& round, size_t group) const {
  return {round.run, round.epoch, round.number, static_cast<uint32_t>(group)};
}

// Memory for the largest group, zeroed, so that the gaps between tensors are zero.
void StreamedUpdates::reserve() {
  const size_t largest = *std::ranges::max_element(sizes_);
  for (Sum* sum : {&filling_, &in_flight_}) sum->values.resize(largest);
}

void StreamedUpdates::take(const Round& round, size_t tensor, std::span<const float> gradient) {
  if (failure_ || bases_.failed()) return;
  const Stopwatch watch;
  gradient = in_form(round, tensor, gradient);
  const size_t first = begin_of(tensor, gradient);
  if (round.size() == 1) {
    update(round, tensor, first, gradient);
    report_.backward_update_seconds += watch.seconds();
    return;
  }
  reserve();
  const float weight = round.own(worker_.communicator.rank()).weight;
  float* const to = filling_.values.data() + places_[tensor] + first;
  worker_.threads.for_ranges(
      static_cast<int64_t>(gradient.size()), 1024, [&](int64_t begin, int64_t end, int) {
        scaled_copy(gradient.data() + begin, to + begin, end - begin, weight);
      });
  report_.backward_update_seconds += watch.seconds();
}

void StreamedUpdates::end_group(const Round& round, [[maybe_unused]] int group) {
  const size_t ended = next_group_++;
  assert(groups_[ended].number == group);
  if (failure_ || bases_.failed() || round.size() == 1) return;
  reserve();
  filling_.group = ended;
  sum_.start(key(round, ended), std::span(filling_.values).first(sizes_[ended]), codec_,
             shares_of(round));
  settle(round);
  std::swap(filling_, in_flight_);
  sums_in_flight_ = !failure_;
}

void StreamedUpdates::settle(const Round& round) {
  if (!std::exchange(sums_in_flight_, false)) return;
  const size_t group = in_flight_.group;
  const std::span<float> mean = std::span(in_flight_.values).first(sizes_[group]);
  const Stopwatch waiting;
  worker_.permits.pause();
  const auto done = sum_.wait(key(round, group), mean, worker_.spec.timeout_s);
  worker_.permits.resume();
  report_.exchange_seconds += waiting.seconds();
  report_.backward_exchange_seconds += waiting.seconds();
  if (!done) {
    failure_ = done.error();
    return;
  }
  for (const size_t tensor : groups_[group].tensors) {
    const Stopwatch watch;
    update(round, tensor, 0, mean.subspan(places_[tensor], counts_[tensor]));
    report_.backward_update_seconds += watch.seconds();
  }
  // Tensors of another group lie elsewhere, and their gaps with them.
  std::ranges::fill(mean, 0.0f);
}

std::span<const float> StreamedUpdates::in_form(const Round& round, size_t tensor,
                                                std::span<const float> gradient) {
  const tensor::GradientForm form = optimizer_.gradient_form(tensor, round.number);
  if (!form.projected || form.in_pass()) return gradient;
  require_finite(optim::global_norm(gradient, worker_.threads), round, worker_.communicator.rank());
  projected_.resize(counts_[tensor]);
  optimizer_.project(tensor, round.number, gradient, projected_, worker_.threads,
                     bases_.average(round, tensor));
  return projected_;
}

size_t StreamedUpdates::begin_of(size_t tensor, std::span<const float> gradient) {
  const size_t begin = taken_;
  taken_ += gradient.size();
  assert(taken_ <= counts_[tensor]);
  if (taken_ == counts_[tensor]) taken_ = 0;
  return begin;
}

void StreamedUpdates::update(const Round& round, size_t tensor, size_t begin,
                             std::span<const float> gradient) {
  const double norm = clipping_.measure(tensor, gradient, worker_.threads, begin > 0);
  require_finite(norm, round, worker_.communicator.rank());
  const bool whole = gradient.size() == counts_[tensor];
  optimizer_.update(
      whole ? optim::tensor_update(worker_.params, tensor, gradient)
            : optim::rows_update(worker_.params, tensor, static_cast<int64_t>(begin), gradient),
      {round.number, round.learning_rate, clipping_.scale(tensor)}, worker_.threads);
}

Result<StepReport> StreamedUpdates::finish(const Round& round) {
  // An inactive member has no backward pass, but it follows the others' sums.
  const bool inactive = round.own(worker_.communicator.rank()).inactive();
  const auto waited = bases_.finish();
  if (!waited) return tl::unexpected(waited.error());
  report_.exchange_seconds += *waited;
  report_.backward_exchange_seconds += *waited;
  report_.backward_update_seconds -= *waited;
  while (inactive && next_group_ < groups_.size()) end_group(round, groups_[next_group_].number);
  // Waiting here happens after the backward pass.
  StepReport report = report_;
  settle(round);
  report.exchange_seconds = report_.exchange_seconds;
  report_ = {};
  assert(failure_ || next_group_ == groups_.size());
  next_group_ = 0;
  taken_ = 0;
  if (failure_) return tl::unexpected(*failure_);
  if (!inactive) report.gradient_norm = clipping_.norm();
  clipping_.end_step();
  if (worker_.params.rounded() != nullptr) worker_.params.set_rounded_current();
  return report;
}

}  // namespace thinwire::sync
