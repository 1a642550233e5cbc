// The end of a served run: which members it is still served for, whose results are awaited, and
// what its coordinator writes and says.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/base/signature.h"
#include "thinwire/config/recipe.h"
#include "thinwire/events/summary.h"
#include "thinwire/hosts/run_status.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/state.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::hosts {

// The results that the members of a complete run report, combined into the run's summary.
class MemberResults {
 public:
  // `recipe`: resolved; it must outlive this.
  explicit MemberResults(const config::Recipe& recipe) : recipe_(recipe) {}

  void add(const PublicKey& member, const events::Summary& summary) { all_[member] = summary; }
  bool has(const PublicKey& member) const { return all_.contains(member); }
  // The digest of the final weights that most members reported; nothing if none did.
  std::optional<uint64_t> digest() const;
  // Losses, accuracies, bytes and times are means over the members that reported; losses are NaN if
  // none did.
  // `steps`: that the run has taken.
  events::Summary summarise(uint64_t digest, uint64_t steps) const;

 private:
  using Values = std::map<std::string, double>;
  // Sets each of these values to its mean over the members; NaN if one of them lacks it.
  void take_means(Values events::Summary::*values, events::Summary& summary) const;

  const config::Recipe& recipe_;
  std::map<PublicKey, events::Summary> all_;
};

// note() is called by the coordinator's thread until the run is over, everything else by one other
// thread.
class RunEnd {
 public:
  // `recipe`: resolved; it must outlive this.
  explicit RunEnd(const config::Recipe& recipe) : recipe_(recipe), results_(recipe) {}

  // Takes those that are present once the run is finished as the members whose results are awaited.
  void note(const membership::State& state);
  void add(const PublicKey& member, const events::Summary& summary) {
    results_.add(member, summary);
  }
  // A message, once: the members that are present have the final weights, and the run is still
  // served for others. Otherwise empty.
  std::string waiting_message(const serve::CoordinatorHost& host);
  // If it is to end now: which members lack the final weights, in a sentence; empty if none does.
  static std::string lacking_message(const serve::CoordinatorHost& host);
  // Returns that sentence and keeps it in `file`, which there is not if no member lacks them.
  static std::string note_lacking(const serve::CoordinatorHost& host, const fs::path& file);
  // Once the run is over: whether to keep waiting for results or for the digest, which ends 20 s
  // after the last member that has yet to report was present. One whose connection has ended is
  // not, nor is one that has been silent for long. `now`: seconds of any clock.
  bool awaits_results(const serve::CoordinatorHost& host, double now);
  // The digest of the final weights; nothing if nobody has reported it.
  std::optional<uint64_t> digest(const serve::CoordinatorHost& host) const;
  events::Summary summarise(uint64_t digest, uint64_t steps) const {
    return results_.summarise(digest, steps);
  }

 private:
  const config::Recipe& recipe_;
  MemberResults results_;
  std::map<int, PublicKey> finishers_;
  bool told_ = false;
  std::optional<double> quiet_since_;  // since when no member that has yet to report is present
};

// The losses and scores of its last evaluation, over the rows and items of all members.

// Thread-safe.
class FinalLosses {
 public:
  // `scores`: the names of the tasks' metrics, "words.acc".
  explicit FinalLosses(const std::vector<std::string>& scores)
      : scores_(scores.begin(), scores.end()) {}

  // Which members take part in the run's last evaluation: those of the round that is opened last.
  void record(const membership::Record& record);
  // What a member has reported; its later evaluations replace its earlier ones.
  void add(const membership::Loss& loss);
  // Sets the losses that the summary has, and adds the scores, of which all of these members have
  // reported the evaluation after `steps` steps.
  void fill(int64_t steps, events::Summary& summary) const;

 private:
  struct Total {
    double sum = 0;
    double weight = 0;
  };
  // Without a weight unless all have reported.
  Total total(const std::string& name, int64_t steps) const REQUIRES(mutex_);

  // One member may say so many names, of any kind: they keep nobody else's from being counted.
  static constexpr size_t kMaxNames = 1000;

  const std::set<std::string> scores_;
  mutable Mutex mutex_;
  std::vector<membership::Share> roster_ GUARDED_BY(mutex_);
  // By member, and set or metric.
  std::map<int, std::map<std::string, membership::Loss>> last_ GUARDED_BY(mutex_);
};

// Writes the summary with what each member has contributed, as `members`, and in a run with noise
// with what that tells of a member's text, as `privacy`.
void write_run_summary(const fs::path& file, const events::Summary& summary,
                       const RunStatus& status);

// The same as sentences, one a member that has contributed.
std::vector<std::string> describe_contributions(const std::vector<MemberStatus>& members);

}  // namespace thinwire::hosts
