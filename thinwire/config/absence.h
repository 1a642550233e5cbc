// Which workers are inactive in which rounds: the recipe field sync.absent.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/config/sync_section.h"

namespace thinwire::config {

// Rounds are counted from 1; both ends are included.
struct Absence {
  int member = 0;
  int64_t first = 1;
  int64_t last = 1;
};

// Throws UsageError naming an entry that is not "MEMBER=FIRST-LAST", or whose member or rounds are
// impossible.
std::vector<Absence> absences_of(const SyncSection& sync, int64_t workers);

bool is_absent(std::span<const Absence> absences, int member, int64_t round);

// The first round of the unbroken sequence up to `round` in which the member was as it is in
// `round`, active or inactive.
int64_t unchanged_since(std::span<const Absence> absences, int member, int64_t round);

}  // namespace thinwire::config
