// Puts what the members of a run receive into the run's stores.
#pragma once

#include <atomic>

#include "thinwire/base/signature.h"
#include "thinwire/hosts/served_run.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

// At every start of a coordinator, whose courier and key these are; what is there already is not
// stored twice. False: the run was founded before. Throws UsageError if that was another run
// (check_same_run), and Error if the stores do not take it or `stop` is set, which may be null.
bool publish_run(transport::Courier& courier, const Signer& coordinator, const ServedRun& run,
                 const std::atomic<bool>* stop);

}  // namespace thinwire::hosts
