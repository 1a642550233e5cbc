#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/error.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::tensor {

Layout::Layout(std::vector<TensorSpec> specs) : specs_(std::move(specs)) {
  offsets_.reserve(specs_.size());
  for (const TensorSpec& spec : specs_) {
    offsets_.push_back(total_);
    total_ += padded_elements(spec.count());
  }
  sort_names();
}

void Layout::sort_names() {
  by_name_.resize(specs_.size());
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::ranges::stable_sort(by_name_, {},
                           [this](size_t index) -> std::string_view { return specs_[index].name; });
}

Layout Layout::joined(const Layout& trained, const Layout& frozen) {
  Layout both = trained;
  for (size_t i = 0; i < frozen.size(); ++i) {
    both.specs_.push_back(frozen.specs_[i]);
    both.offsets_.push_back(kFrozenOffset + frozen.offsets_[i]);
  }
  both.sort_names();
  return both;
}

size_t Layout::at(int64_t offset) const {
  return static_cast<size_t>(std::ranges::lower_bound(offsets_, offset) - offsets_.begin());
}

std::optional<size_t> Layout::index_of(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      by_name_, name, {}, [this](size_t index) -> std::string_view { return specs_[index].name; });
  if (found == by_name_.end() || specs_[*found].name != name) return std::nullopt;
  return *found;
}

size_t Layout::find(std::string_view name) const {
  const std::optional<size_t> found = index_of(name);
  if (!found) throw Error(fmt::format("the model has no tensor named '{}'", name));
  return *found;
}

}  // namespace thinwire::tensor
