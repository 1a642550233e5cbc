// Takes part in a run of many hosts from a machine that has none of its files: the library behind
// `thinwire join`. docs/hosts.md, docs/operations.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/events/progress.h"
#include "thinwire/events/run_log.h"
#include "thinwire/events/summary.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/energy.h"
#include "thinwire/hosts/pauses.h"
#include "thinwire/member/member.h"
#include "thinwire/train/own_learner.h"
#include "thinwire/train/site.h"
#include "thinwire/transport/communicator.h"
#include "thinwire/transport/mpi.h"

namespace thinwire::hosts {

// Over which rows the losses of a member's summary are, as users are told.
inline constexpr const char* kMemberRows = member::kOwnRows;

struct JoinOptions {
  Access access;
  std::vector<std::string> overrides;  // fields that belong to a machine (shared_recipe.h)
  double memory_bytes = 0;             // most memory that the run may use here; 0: no limit
  double row_seconds = 0;              // as MemberOptions (member/member.h)
  bool audits = false;                 // likewise
  // This machine's own text, in a run with data.own, as OwnText::given (run_data.h); else empty.
  fs::path own_text = {};
  double most_epsilon = 0;   // as MemberOptions; a run that plans more is refused
  std::string site;          // where servers are sites, if it is not the host of access.address()
  std::string machine = {};  // what others see of it; empty: the host's name
  // When it leaves the run for a while. It stays connected, and returns by itself.
  PauseRules pauses = {};
  EnergyRules energy = {};                  // that its offers say
  const std::atomic<bool>* stop = nullptr;  // set from outside: leave cleanly
  std::function<void()> on_start = {};      // called just before `stop` is first checked
  // As MemberOptions (member/member.h). Nothing is shown elsewhere than in `display`.
  const train::OwnModel* own_model = nullptr;
  events::Listener* listener = nullptr;
  events::Display display = {};
};

enum class JoinOutcome : uint8_t {
  kFinished,
  kLeft,
  kElsewhere,  // this process is a rank of a site whose rank 0 is the member; nothing else is set
};

struct JoinResult {
  JoinOutcome outcome = JoinOutcome::kFinished;
  fs::path folder;          // run.dir
  int64_t steps = 0;        // completed by this member's replica
  events::Summary summary;  // also in run.dir/summary.json; empty if it left
  int ranks = 1;            // of its site
};

// Creates a key, which is stored in run.dir/member/, and enrols it, receives the recipe, the
// vocabulary and the data, checks this machine, and trains until the run is complete. The same call
// rejoins the run after any interruption. run.dir is runs/joined-ID by default, where ID is the
// start of the run's name, and runs/audited-ID for an auditor. With train.launcher = "mpi" every
// rank of the job calls it; rank 0 is the member, and the others compute gradients with it
// (train/site.h). Throws UsageError for fields that belong to the run, for a folder that holds
// something else, for a run that does not fit this machine, for own_text where the run is not
// trained on it or none where it is, for most_epsilon where the run would tell more, for one whose
// model is external if own_model is not given, and for rules of pauses that this machine cannot
// follow; Error if the run cannot be reached or does not admit this member, and for whatever
// run_member (member/member.h) throws.
JoinResult join_run(const JoinOptions& options);

// The ranks of an MPI job as one member of a run of many hosts (train/site.h).
class SiteRanks {
 public:
  // Joins the job in which this process was started; once per process. Throws UsageError in a
  // program built without MPI. `message` is told which other ranks rank 0 waits for.
  explicit SiteRanks(const events::MessageSink& message);

  int count() const { return job_->size(); }
  bool leads() const { return job_->rank() == 0; }
  // On rank 0: what the member computes with; null if it is the only rank.
  train::Site* site() { return site_ ? &*site_ : nullptr; }
  // On the others: computes for rank 0 until that has ended.
  void help() { train::help_site(*ranks_); }

 private:
  const std::unique_ptr<transport::MpiJob> job_;
  const std::unique_ptr<transport::Communicator> ranks_;
  std::optional<train::Site> site_;  // destroyed first
};

}  // namespace thinwire::hosts
