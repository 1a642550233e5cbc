#include "thinwire/checkpoint/adapter_weights.h"

#include <algorithm>
#include <optional>
#include <span>

#include "thinwire/tensor/products/factors.h"

namespace thinwire::checkpoint {

void copy_common(const tensor::Arena& from, tensor::Arena& to) {
  for (size_t i = 0; i < to.layout().size(); ++i) {
    const std::optional<size_t> same = from.layout().index_of(to.layout().specs()[i].name);
    if (!same) continue;
    from.touch_tensor(*same, false);
    to.fill_tensor(
        i, [&](std::span<float> values) { std::ranges::copy(from.tensor(*same), values.begin()); });
  }
}

void add_adapter(const tensor::Arena& trained, const method::AdapterSpec& adapter,
                 tensor::Arena& weights, ThreadPool& threads) {
  const auto scale = static_cast<float>(method::factor_scale(adapter));
  for (size_t i = 0; i < weights.layout().size(); ++i) {
    const method::FactorNames names = method::factor_names(weights.layout().specs()[i].name);
    const std::optional<size_t> a = trained.layout().index_of(names.a);
    if (!a) continue;
    tensor::add_factors(weights.tensor(i), trained.tensor(*a),
                        trained.tensor(trained.layout().find(names.b)), adapter.rank, scale,
                        threads);
  }
}

}  // namespace thinwire::checkpoint
