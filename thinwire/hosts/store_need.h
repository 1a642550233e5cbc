// How much room the store of a run takes on a disk.
#pragma once

#include <optional>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

// Bytes, at most. The ledger is not counted; it takes little.
struct StoreNeed {
  double payloads = 0;   // of all rounds since the older of the newest two snapshots
  double snapshots = 0;  // these, and the initial weights
  double files = 0;      // of data and base, if members receive them
  double total() const { return payloads + snapshots + files; }
};

// `recipe`: with the model's sizes; `files`: bytes of data and base.
StoreNeed store_need(const config::Recipe& recipe, double files = 0);

// At most, of a snapshot in the middle of the run (member/snapshot.h), and of the file with the
// weights in a checkpoint.
double snapshot_bytes(const config::Recipe& recipe);
double weights_file_bytes(const config::Recipe& recipe);

// "the run's store takes up to 2 GB: …".
std::string describe(const StoreNeed& need);

// One sentence about the room that the run's store in `folder` will take, and what there is. Throws
// UsageError if it cannot fit: what the store holds already counts as room. `files`: as above.
std::string check_room_for_store(const config::Recipe& recipe, const fs::path& folder,
                                 double files);

// How fast this machine fetches what a run's store keeps. The probes of self_check.h also cross the
// coordinator's own link, over which no payloads come on a cluster of servers.

// Bytes a second, by fetching more and more chunks of a blob that `holder` has stored, up to 64 at
// once, until that takes 0.3 s and is no faster than before, or no more are left. Nothing if it has
// fewer than two full chunks, or if they cannot be fetched.
std::optional<double> measure_store(transport::Courier& courier, const transport::BlobId& blob,
                                    const std::string& holder);

}  // namespace thinwire::hosts
