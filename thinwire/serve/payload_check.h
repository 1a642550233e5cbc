// Decodes offered payloads with the method's codec (codec/payload_reader.h).
#pragma once

#include <functional>
#include <optional>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/config/recipe.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/serve/payload_filter.h"

namespace thinwire::serve {

// The content of a payload; none: nothing to compare. A failure says why the payload
// cannot be applied. `weight`: of its member in the round, above 0; if members multiply what they
// send by it, the norm is divided by it, so that members with different numbers of rows can be
// compared.
using PayloadCheck = std::function<Result<std::optional<PayloadContent>>(
    const membership::Offer& offer, uint64_t weight, const Bytes& payload)>;

// For a run with this id. Recipe and plan must outlive the check; used by one thread. Empty for a
// method without a payload reader. `seed`: of the sketches by which payloads are compared; members
// should not know it, because they could disguise copies with it.
PayloadCheck payload_check(const config::Recipe& recipe, const membership::RecipePlan& plan,
                           uint64_t run, uint64_t seed);

}  // namespace thinwire::serve
