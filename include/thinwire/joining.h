// Takes part in a run that `thinwire serve` serves, as `thinwire join` does, with a model that
// Thinwire computes or one of the program's own (docs/embedding.md). Target thinwire::run.
//
// Nothing is printed: callbacks hear what happens. The member's folder holds its key, and its log,
// checkpoints and summary like that of a training run.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "thinwire/callbacks.h"
#include "thinwire/own_model.h"

namespace thinwire {

// Losses and bytes that the callbacks hear of are this member's, over its own rows. A member whose
// replica cannot go on starts over from a snapshot of the run, and tells the steps that it trains
// again once more.
struct JoiningOptions : RunCallbacks {
  std::string address;  // HOST:PORT of the run, or the folder of its mailbox
  std::string token;    // that `thinwire serve` or `thinwire keys` printed
  // The member's; empty: runs/joined-ID, where ID is the start of the run's name. One process at a
  // time; the next one with the same folder is the same member, and goes on.
  std::filesystem::path folder = {};
  // This machine's own recipe fields, "table.field=value", as `thinwire join` takes them:
  // train.threads, train.device, log.* and others; what belongs to the run is refused.
  std::vector<std::string> overrides = {};
  // In a run whose members train on texts of their own (data.own) this one's, as `thinwire join
  // --data` takes it; else empty.
  std::filesystem::path own_text = {};
  // Most that others may learn of it, as `thinwire join --epsilon`: a run that plans more, by its
  // own delta, is refused, and the member fails before a contribution that would tell more. 0: no
  // limit.
  double most_epsilon = 0;
  // How long to wait for the run's server or its coordinator where it is down, in seconds.
  double wait_s = 600;
  // Set from anywhere, it makes the member leave the run cleanly; the next call returns to it. May
  // be null.
  const std::atomic<bool>* stop = nullptr;
  // For runs whose recipe says model.architecture = "external"; else null. `initial` is not used:
  // all members begin with the weights of the run. `worker`, and `memory` if there is one, are
  // called again when the member starts over.
  const OwnModel* own_model = nullptr;
};

struct JoiningResult {
  int64_t steps = 0;             // completed by this member's replica
  bool finished = false;         // false: left, because `stop` was set; or no first rank of a site
  std::filesystem::path folder;  // the member's
  // Set for a finished run.
  double train_loss = 0;           // over this member's rows, mean of the last steps
  double bytes_sent_per_step = 0;  // by this member
  std::string digest = {};  // of the weights, the same for all members: 16 hexadecimal digits
};

// Enrols this machine, trains until the run is complete or `stop` is set, and says how it ended.
// The same call returns to the run after any interruption. Waits as long as it takes for other
// members; a server that is lost meanwhile is waited for, too. Throws Error for an address
// or a token that is not of a run, for a run that does not admit this machine or does not
// fit it, if own_model is missing or the run's model is not external, and for anything that fails
// here, after telling the others that it leaves.
JoiningResult join_run(const JoiningOptions& options);

}  // namespace thinwire
