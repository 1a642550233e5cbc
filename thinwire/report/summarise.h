// The summary of a run that has ended.
#pragma once

#include <cstdint>

#include "thinwire/config/recipe.h"
#include "thinwire/events/summary.h"
#include "thinwire/report/recorder.h"

namespace thinwire::report {

// `digest`: of the final weights. The recipe must be resolved.
events::Summary summarise(const config::Recipe& recipe, const Recorder& recorder, uint64_t digest);

}  // namespace thinwire::report
