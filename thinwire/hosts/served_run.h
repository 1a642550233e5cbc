// The run that a coordinator serves, as stored in its folder: founded once, then the same at every
// start.
//
// run.dir: recipe.toml (as resolved), description.json (what members receive), hugging_face.json
// (what an export needs, if the model is from such a folder), keys.json (key_ring.h), server/,
// which only its owner may read (coordinator.key, token, the files of entrance.h and, for a server
// of the run's own, those of transport/nats/nats_server.h), and summary.json at the end.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/base/signature.h"
#include "thinwire/checkpoint/folder_claim.h"
#include "thinwire/config/recipe.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/hosts/run_data.h"
#include "thinwire/hosts/run_description.h"
#include "thinwire/membership/state.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/nats_jwt.h"

namespace thinwire::hosts {

// Files in server/ besides those of the nats-server.
inline constexpr const char* kServerFolder = "server";
inline constexpr const char* kTokenFile = "token";  // the seed of the ready file's token
inline constexpr const char* kAuthorityFile = "authority.pem";

// The coordinator's secret of a run that has been founded in a folder. Throws Error if it is
// damaged or missing.
Seed coordinator_seed(const fs::path& run_folder);

class RunServers;

struct ServedRun {
  // Held by the server as well: after a crash, the next coordinator waits until the old server has
  // ended.
  std::unique_ptr<checkpoint::FolderClaim> claim;
  Seed seed{};            // of the coordinator's key
  config::Recipe recipe;  // resolved
  RunDescription description;
  std::shared_ptr<const Bytes> weights;  // snapshot 0
  // Vocabulary, shards, model files, and what the base and the tasks are made of, by blob name.
  std::map<Sha256, FilePart> files;
  std::vector<std::string> scores = {};  // of its tasks, that members report: "words.acc"
};

// Where `thinwire serve` keeps the run of a recipe that names no run.dir: apart from that of
// `thinwire train`, in runs/NAME-served, unless runs/NAME holds the served run already.
fs::path served_folder(const config::Recipe& recipe);

// Founds the run of a recipe in recipe.run.dir, or opens the one founded there. `servers`: what
// carries it; nothing is started. `message` is told what the user should know. All coordinators of
// a run on an account of a cluster have the same key. Throws UsageError if the recipe cannot be a
// run of many hosts, if the folder holds something else or a run with another recipe (naming the
// fields), other data or other servers; Error if the data is not prepared, or if another process
// serves the run.
ServedRun open_served_run(config::Recipe recipe, const RunServers& servers,
                          const events::MessageSink& message);

// Throws UsageError, naming the fields that differ, unless `founded`, by another coordinator,
// describes this run.
void check_same_run(const ServedRun& run, const RunDescription& founded);

// Puts what the members of a run receive into the run's stores.

// To be called at every start of a coordinator, with its own courier and key; nothing is stored
// twice. Returns false if the run was founded before. Throws UsageError if that was another run
// (check_same_run), and Error if storing fails or `stop`, which may be null, is set.
bool publish_run(transport::Courier& courier, const Signer& coordinator, const ServedRun& run,
                 const std::atomic<bool>* stop);

// Notes in the folder of a served run how far its ledger has come. If the store is found empty or
// shorter, it has vanished or is an older copy, and the run is not continued from there
// (serve::HostOptions::remembered).

class LedgerNote {
 public:
  // A power cut may cost a store what it had not synced: nats-server syncs every two minutes. So a
  // record is written down once it has been stored for this long; the first one at once.
  static constexpr double kLastingSeconds = 180;

  // Throws Error if the note in `server_folder` is damaged.
  explicit LedgerNote(const fs::path& server_folder);

  // As found; sequence 0 if there was none.
  const membership::Position& remembered() const { return remembered_; }
  // The ledger's last record. Any thread.
  void reached(const membership::Position& position);
  // Writes it down when it is time. Called by one thread, several times a second; `now`: seconds of
  // any clock.
  void keep(double now);
  // Writes it down now: the store ends in an orderly way, which syncs it.
  void keep_last();

 private:
  void write(const membership::Position& position);

  const fs::path file_;
  membership::Position remembered_;
  membership::Position written_;
  membership::Position waiting_;  // to be written down at due_
  double due_ = 0;
  Mutex mutex_;
  membership::Position reached_ GUARDED_BY(mutex_);
};

}  // namespace thinwire::hosts
