#include "thinwire/optim/state_memory.h"

#include <algorithm>
#include <cassert>
#include <string_view>
#include <utility>

namespace thinwire::optim {
namespace {

// A group before its memory is allocated.
struct Plan {
  std::string_view name;
  Agreement agreement;
  std::vector<TensorSpec> specs;
};

}  // namespace

StateMemory::Group::Group(std::string_view called, Agreement kind, std::vector<TensorSpec> specs)
    : name(called), agreement(kind), layout(std::move(specs)), values(layout) {}

StateMemory::StateMemory(const method::OptimizerOptions& options, const tensor::Layout& params) {
  std::vector<Plan> plans;
  for (const TensorSpec& spec : params.specs()) {
    std::vector<Place>& places = places_.emplace_back();
    for (const method::StatePiece& piece : options.spec->state(options, spec)) {
      assert(piece.dtype == DType::kF32);
      auto plan =
          std::ranges::find_if(plans, [&](const Plan& one) { return one.name == piece.name; });
      if (plan == plans.end()) plan = plans.insert(plan, {piece.name, piece.agreement, {}});
      places.push_back({static_cast<size_t>(plan - plans.begin()), plan->specs.size()});
      plan->specs.push_back({spec.name, piece.shape, spec.role, spec.layer});
    }
  }
  for (Plan& plan : plans) groups_.emplace_back(plan.name, plan.agreement, std::move(plan.specs));
}

std::span<float> StateMemory::piece(size_t tensor, size_t index) {
  const Place& place = places_[tensor][index];
  return groups_[place.group].values.tensor(place.tensor);
}

std::vector<OptimizerState> StateMemory::all() {
  std::vector<OptimizerState> state;
  for (Group& group : groups_) state.emplace_back(group.name, group.values.all(), group.agreement);
  return state;
}

void StateMemory::clear() {
  for (Group& group : groups_) std::ranges::fill(group.values.all(), 0.0f);
}

}  // namespace thinwire::optim
