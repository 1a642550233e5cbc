// What is printed when a run starts: what it will do, where, and how its work is saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/config/recipe.h"

namespace thinwire::report {

// A few lines of at most 80 columns, unless a name or a folder is long. The recipe must be
// resolved. corpus_tokens: of the training set; workers_here: in this process, whose memory is
// predicted.
std::vector<std::string> opening_lines(const config::Recipe& recipe, uint64_t corpus_tokens,
                                       int64_t workers_here);

}  // namespace thinwire::report
