// Payloads that a hostile or broken member may send in place of its own.
#pragma once

#include <cstdint>
#include <string_view>

#include "tests/launch/forging_courier.h"
#include "thinwire/config/recipe.h"
#include "thinwire/membership/run_plan.h"

namespace thinwire::launch {

enum class Forgery : uint8_t {
  kFlipped,    // a hundred times the opposite
  kNotFinite,  // nothing but NaN
  kRandom,     // bytes at random
  kCopied,     // another member's values, under its own name
  kDisguised,  // the same, with the opposite of one value
};
inline constexpr std::string_view kForgeryNames[] = {"flipped", "not_finite", "random", "copied",
                                                     "disguised"};

// For members of the run with this id. The plan must outlive it; one member at a time.
ForgingCourier::Forge make_forgery(Forgery kind, const config::Recipe& recipe,
                                   const membership::RecipePlan& plan, uint64_t run);

}  // namespace thinwire::launch
