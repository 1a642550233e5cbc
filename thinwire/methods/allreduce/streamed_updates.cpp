#include "thinwire/methods/allreduce/streamed_updates.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/simd.h"
#include "thinwire/codec/wire.h"
#include "thinwire/method/gradient_sums.h"
#include "thinwire/optim/optimizer.h"

namespace thinwire::sync {

SharedBases::SharedBases(const WorkerParts& worker, MemberSum& sum, const WireCodec& gradients)
    : worker_(worker), sum_(sum), codec_(codec::wire_codec(method::basis_wire(gradients.type))) {}

optim::Average SharedBases::average(const Round& round, size_t tensor) {
  if (round.size() == 1) return {};
  return [this, &round, tensor, number = uint32_t{0}](std::span<float> values) mutable {
    sum(round, method::basis_fragment(tensor, number++), values);
  };
}

void SharedBases::sum(const Round& round, uint32_t fragment, std::span<float> values) {
  if (failure_) return;
  const float weight = round.own(worker_.communicator.rank()).weight;
  for (float& value : values) value *= weight;
  const transport::Key key{round.run, round.epoch, round.number, fragment};
  sum_.start(key, values, codec_, shares_of(round));
  const Stopwatch waiting;
  worker_.permits.pause();
  const auto done = sum_.wait(key, values, worker_.spec.timeout_s);
  worker_.permits.resume();
  waited_ += waiting.seconds();
  if (!done) failure_ = done.error();
}

Result<double> SharedBases::finish() {
  const double waited = std::exchange(waited_, 0);
  if (failure_) return tl::unexpected(*failure_);
  return waited;
}

using config::ClipBy;

Clipping::Clipping(ClipBy by, double clip, size_t tensors)
    : by_(by), clip_(clip), norms_(tensors) {}

void Clipping::measure(const tensor::Arena& gradients, ThreadPool& threads) {
  if (by_ == ClipBy::kStep || clip_ == 0) {
    whole_ = arena_norm_.of(gradients, threads);
    return;
  }
  for (size_t tensor = 0; tensor < norms_.size(); ++tensor) {
    measure(tensor, gradients.tensor(tensor), threads);
  }
}

double Clipping::measure(size_t tensor, std::span<const float> gradient, ThreadPool& threads,
                         bool continues) {
  squares_ = optim::add_squares(continues ? squares_ : 0, gradient, threads);
  return norms_[tensor] = std::sqrt(squares_);
}

float Clipping::scale(size_t tensor) const {
  switch (by_) {
    case ClipBy::kStep:
      return whole_ ? optim::clip_scale(*whole_, clip_) : 1;
    case ClipBy::kPrevious:
      return optim::clip_scale(static_cast<double>(previous_), clip_);
    case ClipBy::kTensor:
      break;
  }
  return optim::clip_scale(norms_[tensor], clip_);
}

double Clipping::norm() const {
  if (whole_) return *whole_;
  double sum = 0;
  for (const double norm : norms_) sum += norm * norm;
  return std::sqrt(sum);
}

void Clipping::end_step() {
  previous_ = static_cast<float>(norm());
  whole_.reset();
}

std::vector<StateTensor> Clipping::state() {
  if (by_ != ClipBy::kPrevious || clip_ == 0) return {};
  return {{"clip.previous_norm", std::span(&previous_, 1), Agreement::kConsensus}};
}

namespace {

THINWIRE_CLONES void scaled_copy(const float* __restrict from, float* __restrict to, int64_t count,
                                 float factor) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] * factor;
}

}  // namespace

StreamedUpdates::StreamedUpdates(const WorkerParts& worker, optim::Optimizer& optimizer,
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
