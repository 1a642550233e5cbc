#include "thinwire/sync/clipping.h"

#include <cmath>

#include "thinwire/optim/optimizer.h"

namespace thinwire::sync {

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

}  // namespace thinwire::sync
