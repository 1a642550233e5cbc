// The internals of a Follower (follower.h), shared by its sources: starting (starting.cpp), waiting
// (follower.cpp), reporting (reporting.cpp), receiving (receiving.cpp) and auditing (auditing.cpp).
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/member/blob_fetcher.h"
#include "thinwire/member/follower.h"
#include "thinwire/member/ledger_view.h"
#include "thinwire/membership/message_codec.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/record_parts.h"

namespace thinwire::member {

inline constexpr std::chrono::milliseconds kStopPollInterval(200);  // while the worker waits

// What waits end with.
inline tl::unexpected<Failure> over() {
  return fail(FailureKind::kAborted, "this member's replica ends here");
}

class Follower::Impl : public std::enable_shared_from_this<Follower::Impl> {
 public:
  using Lock = std::unique_lock<std::mutex>;

  Impl(transport::Courier& courier, const Signer& signer, const membership::RecipePlan& plan,
       FollowerSettings settings);

  void start();
  void close();

  // --- starting (starting.cpp)
  Result<StartState> wait_start_state();
  bool is_obsolete(const StartState& start) const;
  bool skip(const StartState& start);
  bool begin(const StartState& start, int64_t completed);
  ReplayedRounds replayed() const;

  // --- waiting (follower.cpp)
  void end();
  std::optional<std::string> refused();
  Result<membership::Opening> opening(uint64_t round);
  Result<thinwire::Commit> commit(uint64_t round, uint32_t fragment);
  Result<std::vector<std::shared_ptr<const Bytes>>> payloads(const Commit& commit);
  Result<std::shared_ptr<const Bytes>> sum(const Commit& commit, WireType format, float factor);
  // Shows why nothing arrives, or else this activity if it has a text. With the lock held, which it
  // lets go of meanwhile.
  void show_why_silent(Lock& lock, Activity otherwise = {});
  void pause_for(double seconds);
  void completed(int64_t steps);
  void digest(int64_t steps, uint64_t digest);
  std::optional<Place> place(int64_t steps) const;
  bool wants_snapshot(int64_t steps) const;

  // --- reporting (reporting.cpp)
  void trained(int64_t steps, double loss_sum, int64_t tokens);
  void evaluated(int64_t steps, const std::string& set, double loss_sum, int64_t tokens);
  void offer(uint64_t round, uint32_t fragment, Bytes payload, double seconds);
  void store_snapshot(int64_t steps, Bytes content);
  void decline_snapshot();
  std::map<uint64_t, Bytes> last_records() const;
  void announce_leaving(double seconds);

  // --- auditing (auditing.cpp)
  std::optional<membership::Closing> closing(uint64_t round) const;
  Result<std::shared_ptr<const Bytes>> payload(const Contribution& contribution);
  void report(const membership::Audit& audit);

  bool stopped() const { return settings_.stop != nullptr && *settings_.stop; }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  LedgerView view_;
  std::optional<std::string> starts_over_;
  std::optional<std::string> refused_;  // it may not take part
  std::string last_refusal_;            // of something that it asked or offered as a member
  bool given_up_ = false;

  std::optional<int> own_id() const { return view_.state().find(signer_.key()); }

 private:
  struct Offered {
    membership::Offer offer;
    std::shared_ptr<const Bytes> blob;
    bool stored = false;
    bool storing = false;
    double store_at = 0;  // the earliest time for it, on the monotonic clock
  };

  // A sum that a coordinator says it has stored; without a payload one that the worker has formed
  // itself, which need not be fetched any more.
  struct SumSaid {
    membership::Sum sum;
    std::string holder;
    transport::BlobId id() const { return {sum.payload, sum.bytes}; }
  };

  using Holders = std::map<transport::BlobId, std::vector<std::string>>;

  // With the lock held:
  void notice_denial();
  bool ended();
  const membership::Member* own() const;
  bool caught_up() const;
  ReplayedRounds rounds_to_replay(uint64_t completed) const;
  // Whether everything has been read that the ledger's stream had when it was opened.
  bool has_read_all() const { return end_ && read_ >= *end_; }
  bool takes_checkpoint() const;
  // Whether the ledger ends before the checkpoint, as far as can be seen in the same history: the
  // coordinator's store is an older copy, or has lost records that this member has.
  bool awaits_records() const;
  void say(Lock& lock, const std::string& text);
  void give_up_checkpoint(Lock& lock);
  std::vector<Bytes> records_from(uint64_t first) const;
  bool can_start() const;
  // The snapshot that a replica may start from at present.
  std::optional<uint64_t> start_snapshot() const;
  std::optional<membership::Position> position();
  void follow_own_phase();
  std::string why_excluded(const membership::Member& member) const;
  void start_over_if_reopened();
  void follow_as_auditor();
  // Whether what this member offers for an operation may still count, as far as it has read.
  bool may_count(uint64_t round, uint32_t fragment) const;
  void drop_spent_offers();
  void drop_kept_payloads();
  void send_soon() {
    sends_now_ = true;
    wake_.notify_all();
  }
  std::vector<membership::Message> repeated();
  double idle_s() const;
  void store_again(Lock& lock);

  void take_record(uint64_t place, Bytes message);
  // The payloads that the worker needs of the round that `record` has closed, if it has begun that,
  // with who has them.
  Holders closed_by(const membership::Record& record) const;
  Holders holders_of(const Commit& commit) const;
  // Fetches them before the worker waits for them. Releases the lock meanwhile.
  void start_early(Lock& lock, const Holders& holders);
  void receive(const Bytes& bytes);
  void receive_from_member(const Bytes& bytes);
  void store_lost_again(const Sha256& payload);
  void answer(const membership::Message& message);
  bool is_new(const membership::Statement& statement, const Bytes& bytes);
  // That the coordinator is there, and what it waits for.
  void note_coordinator(const membership::Message& message);
  void go_on_from(const membership::Overtaken& overtaken);
  void take_sum(const membership::Sum& sum, const PublicKey& author);
  std::deque<SumSaid>::const_iterator find_sum(const Sha256& contributions) const {
    return std::ranges::find(sums_said_, contributions,
                             [](const SumSaid& one) { return one.sum.contributions; });
  }
  void note_sum(const membership::Sum& sum, std::string holder);
  // Whether the coordinator has said that it does not form the sum.
  bool is_left_to_members(const Commit& commit) const;
  bool forms_sum(const Commit& commit) const {
    return settings_.sums && settings_.sums->applies(commit);
  }
  // Whether it trains and the worker has begun this round.
  bool has_begun(uint64_t round) const;
  // Null if nobody has it.
  Result<std::shared_ptr<const Bytes>> fetch(const transport::BlobId& id, const std::string& holder,
                                             transport::Priority priority);
  void read_ledger();
  void ask_for_end();
  void stop_sending();
  void send_loop();
  void send(const std::vector<membership::Message>& messages);
  void store(std::pair<uint64_t, uint32_t> name, const std::shared_ptr<const Bytes>& blob);
  void show(const Activity& activity);
  std::string waiting_text(uint64_t round, std::vector<int>& missing) const;
  Activity catching_up() const;
  // With the lock held, which they let go of meanwhile:
  // Why nothing arrives: the run cannot be reached, or the coordinator has fallen silent;
  // otherwise empty.
  std::string why_silent(Lock& lock);
  // Why it takes longer: why_silent(), or what the coordinator has said; otherwise empty.
  std::string why_longer(Lock& lock);
  // Waits until ready() is true; returns false if the replica has to end. Shows meanwhile what it
  // waits for: `activity`, or why_longer(). Of several waits at a time, that for the oldest round
  // is shown.
  bool wait_shown(Lock& lock, const Activity& activity, const std::function<bool()>& ready);

  transport::Courier& courier_;
  const Signer& signer_;
  const membership::RecipePlan& plan_;
  const FollowerSettings settings_;
  const membership::Options times_;
  const double retry_s_;  // after the store or a holder refused
  BlobFetcher fetcher_;
  membership::ReplayWindow received_;
  std::map<bool, double> told_overtaken_;  // when, by whether the coordinator's clock was ahead

  std::optional<Place> checkpoint_;  // from which it may start
  const std::map<uint64_t, Bytes> checkpoint_records_;
  bool has_replica_ = false;
  bool behind_ = false;               // it continues from a checkpoint and has not caught up yet
  std::optional<double> stopped_at_;  // when the stop was noticed
  bool unreachable_ = false;          // the run, when a wait last looked
  membership::Position replica_;      // the position it is known to have reached
  uint64_t started_by_ = 0;           // the record that assigned what it started from
  std::optional<uint64_t> skipped_;   // this snapshot and earlier ones cannot be fetched
  int64_t completed_ = 0;             // steps
  std::optional<uint64_t> awaited_;   // the round whose commit the worker waits for
  ReplayedRounds replayed_;
  uint64_t handed_out_ = 0;  // the round after the last one given to the worker
  std::optional<membership::AgreedDigest> digest_;  // after the last round that ended
  int64_t digest_steps_ = -1;
  std::map<uint64_t, uint64_t> digests_;  // of an auditor, by round: the last State::kDigestsKept
  double loss_sum_ = 0;                   // of training in this round
  int64_t loss_tokens_ = 0;
  bool snapshot_asked_ = false;
  std::optional<membership::SnapshotReady> snapshot_;  // stored, but not in the ledger yet
  std::map<std::pair<uint64_t, uint32_t>, Offered> offers_;
  std::set<transport::BlobId> early_;  // payloads and sums fetched before the worker waits for them
  std::map<uint64_t, double> closed_at_;  // the last rounds, by the monotonic clock
  std::deque<SumSaid> sums_said_;         // the last ones
  KeptPayloads kept_;
  std::map<Sha256, double> stored_again_at_;                // recently, by payload
  std::map<uint64_t, std::map<int, int>> offers_received_;  // by round and member, for display

  std::multiset<uint64_t> waits_;  // the rounds of those that are shown, if they are the oldest
  std::optional<double> coordinator_heard_;  // when; nothing from one that says what it waits for
  std::string coordinator_waits_;            // as it last said

  std::condition_variable wake_;
  bool sends_now_ = true;
  bool reads_again_ = false;
  uint64_t read_ = 0;  // the last place read in the stream
  membership::RecordJoiner joiner_;
  std::optional<uint64_t> end_;  // of the stream, when it was opened; none: not known yet
  bool asks_for_end_ = false;    // again
  bool closing_ = false;
  std::mutex sending_;  // keeps statements in the order of their numbers
  membership::StatementNumbers numbers_;
  std::mutex showing_;
  std::string shown_;

  std::unique_ptr<transport::Subscription> ledger_;
  std::unique_ptr<transport::Subscription> statements_;
  std::unique_ptr<transport::Subscription> statements_of_others_;
  std::thread sender_;
};

}  // namespace thinwire::member
