// Puts what the members of a run receive into the run's stores.
#pragma once

#include <atomic>

#include "thinwire/base/signature.h"
#include "thinwire/hosts/served_run.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

// To be called at every start of a coordinator, with its own courier and key; nothing is stored
// twice. Returns false if the run was founded before. Throws UsageError if that was another run
// (check_same_run), and Error if storing fails or `stop`, which may be null, is set.
bool publish_run(transport::Courier& courier, const Signer& coordinator, const ServedRun& run,
                 const std::atomic<bool>* stop);

}  // namespace thinwire::hosts
