// Serves a run of many hosts to its end, as `thinwire serve` does (docs/hosts.md); machines take
// part with `thinwire join` or join_run (thinwire/joining.h). Target thinwire::run.
//
// Nothing is printed. The run's folder is run.dir, or runs/NAME-served if the recipe names none: it
// holds the coordinator's keys, and at the end the summary and a checkpoint with the final weights.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "thinwire/recipe.h"

namespace thinwire {

struct ServingOptions {
  std::string listen = "0.0.0.0:0";  // HOST:PORT; port 0: the one it had before, or a free one
  std::string address = {};          // HOST:PORT at which members reach it; empty: as it listens
  // A folder to use instead of a server, which something else keeps the same on all machines.
  std::filesystem::path mailbox = {};
  bool weights = true;     // whether the final weights come into the run's folder, from a member
  double token_days = 30;  // for which the token is valid; 0: without limit
  // Called once members may join, with what they need. May be empty.
  std::function<void(const std::string& address, const std::string& token)> on_ready = {};
  // Called with what the command line would print: one line of text, without the newline. Called on
  // several threads, one at a time. Must not throw. May be empty.
  std::function<void(std::string_view)> on_message = {};
  // Set from anywhere, it ends the call; the next one resumes the run. May be null.
  const std::atomic<bool>* stop = nullptr;
};

struct ServingResult {
  bool finished = false;              // false: stopped
  uint64_t round = 0;                 // of a run that was stopped: the oldest open one
  std::filesystem::path folder = {};  // the run's
  // Set for a finished run: means over its members.
  double train_loss = 0;                      // nats per token, over the last steps
  std::map<std::string, double> losses = {};  // by validation set
  double bytes_sent_per_step = 0;             // by one member
  std::string digest = {};                    // of the weights: 16 hexadecimal digits
};

// Starts a nats-server, which must be installed unless there is a mailbox, admits members and
// coordinates them until the run is complete or `stop` is set. The same call resumes the run at the
// same address and with the same tokens, however the earlier one ended. Throws UsageError for a
// recipe that cannot be a run of many hosts, for a folder that holds something else or a run with
// another recipe, and for a malformed address; Error if the data is not prepared, if another
// process serves the run, or if the server cannot be started.
ServingResult serve_run(const Recipe& recipe, const ServingOptions& options = {});

}  // namespace thinwire
