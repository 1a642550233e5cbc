// Decodes what members offer with the method's own codec (codec/payload_reader.h).
#pragma once

#include <functional>
#include <optional>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/config/recipe.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/serve/payload_judge.h"

namespace thinwire::serve {

// What is in a payload; none: nothing that could be compared. A failure says why the payload cannot
// be applied. `weight`: of its member in the round, above 0; where members multiply what they send
// by it, the norm is divided by it, so that those of members with more and fewer rows compare.
using PayloadCheck = std::function<Result<std::optional<PayloadContent>>(
    const membership::Offer& offer, uint64_t weight, const Bytes& payload)>;

// For a run with this id. Recipe and plan must outlive the check; used by one thread. Empty for a
// method whose payloads nobody can read.
PayloadCheck payload_check(const config::Recipe& recipe, const membership::RecipePlan& plan,
                           uint64_t run);

}  // namespace thinwire::serve
