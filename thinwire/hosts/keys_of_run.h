// Changes who may take part in a run that is served from a folder, whether or not it is being
// served now: the library behind `thinwire keys`. A coordinator that serves the run notices within
// a second.
#pragma once

#include <string>

#include "thinwire/base/file.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/report/table.h"

namespace thinwire::hosts {

// All of them throw UsageError if `run_folder` is not one of `thinwire serve`.

// Tokens and enrolled keys: id, what it is, role, since when, until when, state.
report::Table list_keys(const fs::path& run_folder);

// A new token, valid for `days` (0: without limit), as text.
std::string issue_token(const fs::path& run_folder, Role role, double days, bool single_use);

// Revokes the token or key whose id is or begins with `id`, and the keys enrolled with the token.
// Returns what was done, as a sentence, and on a cluster what its admin has to do. Throws
// UsageError if none or several match.
std::string revoke_keys(const fs::path& run_folder, const std::string& id);

}  // namespace thinwire::hosts
