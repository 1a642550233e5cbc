// Serves a run of many hosts: starts a nats-server of its own or uses a cluster or a mailbox, hands
// out what members need, admits them, and coordinates the run to its end. The library behind
// `thinwire serve`; docs/hosts.md, docs/operations.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"
#include "thinwire/events/progress.h"
#include "thinwire/events/summary.h"
#include "thinwire/hosts/cluster.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/page/live_run.h"

namespace thinwire::hosts {

struct ServeOptions {
  std::string listen = "0.0.0.0:0";  // HOST:PORT; port 0: the one it had before, or a free one
  std::string address;               // HOST:PORT at which members reach it; empty: as it listens
  // Used instead of a server of its own. A second coordinator of the same run on the same cluster,
  // in another folder, stands by: it takes over the run if the first one is lost.
  std::optional<ClusterOptions> cluster;
  // Used instead of servers: a folder that something else synchronises with the members'
  // (transport/mailbox/courier_mailbox.h). Empty: none.
  fs::path mailbox = {};
  // Written once members may join: JSON with "address", which with a mailbox is its folder,
  // "token", and "ca", the file that holds the certificate of the run's authority. Empty: not
  // written.
  fs::path ready_file;
  // Called once members may join. May be empty.
  std::function<void(const std::string& address, const std::string& token)> on_ready = {};
  bool weights = true;     // whether the final weights come into the run's folder
  double token_days = 30;  // how long the token of the ready file is valid; 0: without limit
  const std::atomic<bool>* stop = nullptr;  // set from outside: stop cleanly, to resume later
  events::Display display = {};
  std::function<void()> on_start = {};  // called just before `stop` is first checked
  // Called with the resolved recipe and the number of rounds, before members may join. The object
  // that it returns receives the state of the run (run_watch.h) and must outlive the call. May be
  // empty.
  std::function<page::LiveRun*(const config::Recipe& recipe, uint64_t rounds)> watch = {};
};

enum class ServeOutcome : uint8_t { kFinished, kStopped, kAlreadyFinished };

struct ServeResult {
  ServeOutcome outcome = ServeOutcome::kFinished;
  uint64_t round = 0;       // the oldest open one when it was stopped
  events::Summary summary;  // also in run.dir/summary.json; empty if it was stopped
};

// Runs until the run is complete or `stop` is set; the same call resumes the run in recipe.run.dir,
// at the same address and with the same tokens, however the earlier call ended. Throws UsageError
// and Error as open_served_run (served_run.h) and ClusterEntrance (entrance.h) do, UsageError for a
// malformed address, and Error if the server cannot be started or reached.
ServeResult serve_run(config::Recipe recipe, const ServeOptions& options);

}  // namespace thinwire::hosts
