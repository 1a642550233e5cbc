// What is printed when a run starts: what it will do, where, and how its work is saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/events/summary.h"
#include "thinwire/report/recorder.h"

namespace thinwire::report {

// The rows of one pass over the training set, and the tokens in them without padding; 0 where only
// the program that trains its own model knows them.
struct TrainingRows {
  uint64_t rows = 0;
  uint64_t tokens = 0;
};

// A few lines of at most 80 columns, unless a name or a folder is long. The recipe must be
// resolved. workers_here: in this process, whose memory is predicted.
std::vector<std::string> opening_lines(const config::Recipe& recipe, const TrainingRows& training,
                                       int64_t workers_here);

// The summary of a run that has ended.

// `digest`: of the final weights. The recipe must be resolved.
events::Summary summarise(const config::Recipe& recipe, const Recorder& recorder, uint64_t digest);

}  // namespace thinwire::report
