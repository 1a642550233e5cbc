// What a finished run prints on stdout.
#pragma once

#include <string>

#include "thinwire/events/summary.h"

namespace thinwire::cli {

// `folder`: run.dir, as the user named it.
void print_run_result(const events::Summary& summary, const std::string& folder);

}  // namespace thinwire::cli
