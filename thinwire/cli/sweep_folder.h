// The folder of a sweep: its runs, their logs, its results.
#pragma once

#include "thinwire/base/file.h"

namespace thinwire::cli {

// One process at a time runs a sweep: this file in its folder is locked meanwhile.
inline constexpr const char* kSweepLock = ".lock";

// Throws UsageError naming `out` and something in it, unless a sweep may write there: it does not
// exist yet, is empty, or holds a sweep's results or the log of a sweep's run.
void require_sweep_folder(const fs::path& out);

}  // namespace thinwire::cli
