#include "thinwire/train/relora.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <utility>

#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/adapters/relora.h"

namespace thinwire::train {

void reset_smallest(std::span<float> values, double share) {
  if (share <= 0 || values.empty()) return;
  std::vector<float> sizes;
  for (const float value : values) sizes.push_back(std::abs(value));
  const auto last = static_cast<double>(sizes.size() - 1);
  const auto at = sizes.begin() + static_cast<std::ptrdiff_t>(std::floor(share * last));
  std::ranges::nth_element(sizes, at);
  for (float& value : values) {
    if (std::abs(value) <= *at) value = 0;
  }
}

Relora::Relora(const config::Recipe& recipe, std::shared_ptr<FrozenWeights> base,
               tensor::Arena& params)
    : recipe_(recipe), base_(std::move(base)), params_(params) {}

std::vector<StateTensor> Relora::state() {
  return {{checkpoint::kMergedBase, base_->values.all(), Agreement::kConsensus}};
}

bool Relora::after_step(int64_t completed, std::span<const StateTensor> optimizer,
                        ThreadPool& threads) {
  if (!method::merges_after(recipe_, completed)) return false;
  checkpoint::add_adapter(params_, recipe_.adapter, base_->values, threads);
  draw_factors(recipe_, static_cast<uint64_t>(completed), params_);
  const tensor::Layout& layout = params_.layout();
  for (const StateTensor& part : optimizer) {
    assert(part.dtype == DType::kF32);
    // The optimizer's parts have a value for every parameter, in their order; the rest is of
    // clipping, and does not depend on the factors.
    if (std::cmp_not_equal(part.values.size(), layout.total())) continue;
    for (size_t i = 0; i < layout.size(); ++i) {
      const TensorSpec& spec = layout.specs()[i];
      if (!method::is_factor(spec)) continue;
      reset_smallest(part.values.subspan(static_cast<size_t>(layout.offset(i)),
                                         static_cast<size_t>(spec.count())),
                     recipe_.section<method::ReloraOptions>("relora").reset);
    }
  }
  return true;
}

}  // namespace thinwire::train
