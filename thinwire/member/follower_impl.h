// The inside of a Follower (follower.h): what its two sources share, the waiting (follower.cpp) and
// the speaking (speaking.cpp).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/member/blob_fetcher.h"
#include "thinwire/member/follower.h"
#include "thinwire/member/ledger_view.h"
#include "thinwire/membership/message_codec.h"
#include "thinwire/membership/options.h"

namespace thinwire::member {

class Follower::Impl : public std::enable_shared_from_this<Follower::Impl> {
 public:
  using Lock = std::unique_lock<std::mutex>;

  Impl(transport::Courier& courier, const Signer& signer, const membership::RecipePlan& plan,
       FollowerSettings settings);

  void start();
  void close();

  // --- waiting (follower.cpp)
  Result<Beginning> wait_beginning();
  bool is_obsolete(const Beginning& beginning) const;
  bool begin(const Beginning& beginning, int64_t completed);
  void end();
  Result<membership::Opening> opening(uint64_t round);
  Result<thinwire::Commit> commit(uint64_t round, uint32_t fragment);
  Result<std::vector<std::shared_ptr<const Bytes>>> payloads(const Commit& commit);
  void rest(double seconds);
  void completed(int64_t steps);
  void digest(int64_t steps, uint64_t digest);
  bool wants_snapshot(int64_t steps) const;

  // --- speaking (speaking.cpp)
  void offer(uint64_t round, uint32_t fragment, Bytes payload, double seconds);
  void give_snapshot(int64_t steps, Bytes content);
  void say_goodbye(double seconds);

  bool stopped() const { return settings_.stop != nullptr && *settings_.stop; }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  LedgerView view_;
  std::optional<std::string> starts_over_;
  std::optional<std::string> refused_;  // it may not take part
  bool given_up_ = false;

  std::optional<int> own_id() const { return view_.state().find(signer_.key()); }

 private:
  struct Offered {
    membership::Offer offer;
    std::shared_ptr<const Bytes> blob;
    bool stored = false;
    bool storing = false;
    double store_at = 0;  // not earlier; on the monotonic clock
  };

  // With the lock held:
  bool ended() const { return given_up_ || starts_over_.has_value() || stopped(); }
  // Waits until `ready` or the replica is to end; false: it is.
  bool wait(Lock& lock, const std::function<bool()>& ready);
  const membership::Member* own() const;
  bool caught_up() const;
  std::optional<membership::Position> position();
  void follow_own_phase();
  void drop_closed_offers();
  void speak_soon() {
    speaks_now_ = true;
    speak_.notify_all();
  }
  std::vector<membership::Message> repeated();
  double silent_s() const;
  void store_again(Lock& lock);

  void take_record(const Bytes& record);
  void hear(const Bytes& bytes);
  void answer(const membership::Message& message);
  void read_ledger();
  void fall_silent();
  void speak_loop();
  void say(const std::vector<membership::Message>& messages);
  void store(std::pair<uint64_t, uint32_t> name, const std::shared_ptr<const Bytes>& blob);
  void show(const Activity& activity);
  std::string waiting_text(uint64_t round, std::vector<int>& missing) const;

  transport::Courier& courier_;
  const Signer& signer_;
  const membership::RecipePlan& plan_;
  const FollowerSettings settings_;
  const membership::Options times_;
  const double retry_s_;  // after the store or a holder refused
  BlobFetcher fetcher_;
  membership::ReplayWindow heard_;

  bool has_replica_ = false;
  membership::Position replica_;                    // how far it is known to have come
  uint64_t begun_told_ = 0;                         // the record that told it to begin
  int64_t completed_ = 0;                           // steps
  std::optional<uint64_t> awaited_;                 // the round whose commit the worker waits for
  uint64_t handed_out_ = 0;                         // rounds that the worker may have begun
  std::optional<membership::AgreedDigest> digest_;  // after the last round that ended
  int64_t digest_steps_ = -1;
  bool snapshot_asked_ = false;
  std::optional<membership::SnapshotReady> snapshot_;  // stored, and not in the ledger yet
  std::map<std::pair<uint64_t, uint32_t>, Offered> offers_;
  std::map<uint64_t, std::map<int, int>> offers_heard_;  // by round and member, for people

  std::condition_variable speak_;
  bool speaks_now_ = true;
  bool reads_again_ = false;
  bool closing_ = false;
  std::mutex speaking_;  // of numbers and their order on the wire
  membership::StatementNumbers numbers_;
  std::mutex showing_;
  std::string shown_;

  std::unique_ptr<transport::Subscription> ledger_;
  std::unique_ptr<transport::Subscription> statements_;
  std::unique_ptr<transport::Subscription> offers_of_others_;
  std::thread speaker_;
};

}  // namespace thinwire::member
