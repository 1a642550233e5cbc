// Forms the sums of commits for the members (sync.sums, sync/committed_sum.h): fetches what a
// commit lists, one contribution after another, stores their sum under the coordinator's name, and
// says when members can fetch it, or at once that they are to form it. docs/hosts.md.
//
// Members need none of this: one that hears of no sum in time, or cannot fetch it, forms it itself.
// So a sum is dropped if anything goes wrong, and only the newest rounds are considered.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/commit.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/membership/state.h"
#include "thinwire/serve/host_inbox.h"
#include "thinwire/sync/committed_sum.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::serve {

// Who forms a sum, by measured bandwidth (sync.sums = "auto"): the coordinator, unless its line is
// so slow that members have the other contributions before they would have its sum. docs/hosts.md,
// "Sums".
class SumChoice {
 public:
  struct Exchange {
    uint64_t contributions = 0;  // 3 or more
    uint64_t bytes = 0;          // of each, the mean
    uint64_t sum_bytes = 0;
    double down_bytes_s = 0;  // of the slowest member's link; 0: not known
  };

  // What it took the coordinator to fetch the contributions, to add them up and to store the sum;
  // or as long as it had tried.
  void formed(const Exchange& exchange, double seconds);
  // As far as is known.
  bool members_are_faster(const Exchange& exchange) const;
  // Whether it forms the next one. It tries again after some that it has left to the members, since
  // lines change.
  bool coordinator_forms(const Exchange& exchange);

 private:
  double seconds_a_byte_ = 0;  // of contributions and sum, the last time; 0: not known
  int left_to_members_ = 0;    // since then
};

// Belongs to the thread that ticks the host. In memory are at most one sum, 4 bytes a value of a
// dense one and 8 of sparse payloads, and a few contributions.
class SumMaker {
 public:
  // Without a rule it does nothing. Courier and plan must outlive it; the courier's answers go to
  // `inbox`, perhaps after this object is destroyed. `copies`: contributions are stored under the
  // courier's own name, too (HostOptions::keeps), and are fetched from there first.
  SumMaker(transport::Courier& courier, std::shared_ptr<Inbox> inbox,
           const membership::RunPlan& plan, const std::optional<sync::SumRule>& rule, bool copies)
      : courier_(courier), inbox_(std::move(inbox)), plan_(plan), rule_(rule), copies_(copies) {}

  // A record of the ledger; the same one may be passed repeatedly.
  void read(const membership::Record& record);
  // Begins the next sum if none is being formed, leaves others to the members, and deletes those of
  // rounds that members have long applied. For a coordinator that leads and has read the whole
  // ledger. `is_used`: whether the coordinator keeps this blob as something else. `down_bytes_s`:
  // of a member's link; 0: not known. Returns what to tell the members: which sums they are to
  // form.
  std::vector<membership::Sum> tick(const membership::State& state, double now,
                                    const std::function<bool(const Sha256&)>& is_used,
                                    const std::function<double(const PublicKey&)>& down_bytes_s);
  void take(FetchedPart fetched, double now);
  // A sum that the store has acknowledged: what to tell the members.
  std::optional<membership::Sum> take(const StoredSum& stored, double now);

 private:
  struct Waiting {
    membership::Opening opening;
    Commit commit;
  };
  struct Job {
    uint64_t number = 0;
    double begun = 0;
    membership::Sum sum;  // but for the payload
    std::vector<Contribution> parts;
    std::vector<float> shares;         // of the parts
    std::vector<std::string> holders;  // likewise
    std::unique_ptr<sync::RunningSum> running;
    std::map<size_t, Bytes> arrived;
    size_t requested = 0;         // parts, from the first on
    size_t added = 0;             // likewise
    std::set<size_t> not_copied;  // parts of which there is no copy

    SumChoice::Exchange exchange() const {
      uint64_t bytes = 0;
      for (const Contribution& one : parts) bytes += one.bytes;
      return {parts.size(), bytes / parts.size(), sum.bytes, 0};
    }
  };
  struct Stored {
    uint64_t round = 0;
    Sha256 sum;
  };

  // Sums are formed and kept for rounds that are at most so many behind the next one to open: those
  // that are open, and the last four that are closed.
  uint64_t kept_rounds() const { return plan_.overlap() + 5; }
  std::unique_ptr<Job> job_of(const Waiting& waiting, const membership::State& state) const;
  bool is_left_to_members(const Job& job, const membership::State& state,
                          const std::function<double(const PublicKey&)>& down_bytes_s);
  void begin(std::unique_ptr<Job> job, double now);
  void request();
  void fetch(size_t index, const std::string& holder);
  void finish();
  void give_up(double now);
  void delete_old(const membership::State& state,
                  const std::function<bool(const Sha256&)>& is_used);

  transport::Courier& courier_;
  const std::shared_ptr<Inbox> inbox_;
  const membership::RunPlan& plan_;
  const std::optional<sync::SumRule> rule_;
  const bool copies_;
  SumChoice choice_;
  std::map<uint64_t, membership::Opening> openings_;  // of rounds that are not closed
  std::deque<Waiting> waiting_;                       // in the ledger's order
  std::deque<Sha256> begun_;                          // the last sums, by their contributions
  uint64_t jobs_ = 0;
  std::unique_ptr<Job> job_;
  std::deque<Stored> stored_;
};

}  // namespace thinwire::serve
