// Sets up a NATS cluster to carry runs, for those who do not have NATS's own tool for it (nsc): an
// operator, whom the cluster's servers trust, and accounts for runs. The library behind `thinwire
// keys account`; docs/operations.md.
#pragma once

#include <string>

#include "thinwire/base/file.h"

namespace thinwire::hosts {

struct ClusterAccount {
  fs::path configuration;  // accounts.conf, for every server to include
  fs::path key;            // NAME.key, for `thinwire serve --creds`
};

// Adds an account to the operator whose keys are in `folder`; creates both, readable by their owner
// only, if there are none yet. Throws UsageError for a name that is taken or is not a courier name,
// and Error if a key is damaged.
ClusterAccount add_account(const fs::path& folder, const std::string& name);

}  // namespace thinwire::hosts
