// The files that a task reads, for whoever has to pass them on.
#pragma once

#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/eval/task.h"

namespace thinwire::eval {

// The files that read_items reads in `folder`, by their paths in it. Throws Error as read_items
// does for files that are missing.
std::vector<std::string> data_files(const Task& task, const fs::path& folder);

}  // namespace thinwire::eval
