// How fast this machine fetches what a run's store keeps. The probes of self_check.h also cross the
// coordinator's own link, over which no payloads come on a cluster of servers.
#pragma once

#include <optional>
#include <string>

#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

// Bytes a second, by fetching more and more chunks of a blob that `holder` has stored, up to 64 at
// once, until that takes 0.3 s and is no faster than before, or no more are left. Nothing if it has
// fewer than two full chunks, or if they cannot be fetched.
std::optional<double> measure_store(transport::Courier& courier, const transport::BlobId& blob,
                                    const std::string& holder);

}  // namespace thinwire::hosts
