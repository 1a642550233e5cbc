// The runs behind the law of coverage. A new one is a line of the table.
#include <array>

#include "thinwire/plan/coverage.h"

namespace thinwire::plan {
namespace {

constexpr std::string_view kLoss = "2026-11-21-distro-loss.md";
constexpr std::string_view kCoverage = "2026-11-22-distro-coverage.md";
constexpr std::string_view kUpdates = "2026-11-23-distro-updates.md";

// Parameters, steps, k, slots, gap. Eight workers; four with 172 k parameters and where the gap is
// 0.912, thirty-two where it is 0.849.
constexpr std::array kRuns = {
    CoverageRun{385'856, 1200, 1, 4096, 1.000, kLoss},
    CoverageRun{385'856, 1200, 3, 4096, 0.773, kLoss},
    CoverageRun{385'856, 1200, 6, 4096, 0.622, kLoss},
    CoverageRun{385'856, 1200, 24, 4096, 0.305, kLoss},
    CoverageRun{385'856, 1200, 96, 4096, 0.173, kLoss},
    CoverageRun{385'856, 1200, 384, 4096, 0.151, kLoss},
    CoverageRun{385'856, 600, 3, 4096, 0.912, kLoss},
    CoverageRun{385'856, 600, 3, 4096, 0.849, kLoss},
    CoverageRun{385'856, 12'000, 3, 4096, 0.255, kCoverage},
    CoverageRun{385'856, 12'000, 24, 4096, 0.057, kCoverage},
    CoverageRun{172'352, 5000, 3, 4096, 0.223, kUpdates},
    CoverageRun{172'352, 5000, 3, 4096, 0.246, kUpdates},
    CoverageRun{172'352, 5000, 24, 4096, 0.066, kUpdates},
    CoverageRun{172'352, 5000, 24, 4096, 0.053, kUpdates},
};

}  // namespace

std::span<const CoverageRun> coverage_runs() { return kRuns; }

}  // namespace thinwire::plan
