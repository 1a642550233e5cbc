// What a coordinator writes and says at the end of a run.
#pragma once

#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/events/summary.h"
#include "thinwire/hosts/run_status.h"

namespace thinwire::hosts {

// Writes the summary with what each member has contributed, as `members`.
void write_run_summary(const fs::path& file, const events::Summary& summary,
                       const std::vector<MemberStatus>& members);

// The same as sentences, one a member that has contributed.
std::vector<std::string> describe_contributions(const std::vector<MemberStatus>& members);

}  // namespace thinwire::hosts
