// The internals of a Follower (follower.h), shared by its sources: what the worker waits for
// (follower.cpp), and the network (follower_network.cpp). The machine decides everything.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "thinwire/base/mutex.h"
#include "thinwire/member/blob_fetcher.h"
#include "thinwire/member/follower.h"
#include "thinwire/member/member_machine.h"
#include "thinwire/membership/message_codec.h"

namespace thinwire::member {

class Follower::Impl : public std::enable_shared_from_this<Follower::Impl> {
 public:
  Impl(transport::Courier& courier, const Signer& signer, const membership::StepPlan& plan,
       FollowerSettings settings);

  void start();
  void close();
  void announce_leaving(double seconds);

  // What `call` returns for the machine, which it only looks at.
  template <typename Call>
  auto look(Call call) const {
    const Lock lock(mutex_);
    return call(machine_);
  }
  // What `call` returns for the machine, whose actions are carried out afterwards.
  template <typename Call>
  auto with_machine(Call call) {
    const Lock lock(mutex_);
    if constexpr (std::is_void_v<decltype(call(machine_))>) {
      call(machine_);
      settle();
    } else {
      auto answer = call(machine_);
      settle();
      return answer;
    }
  }

  Result<StartState> wait_start_state();
  bool begin(const StartState& start, int64_t completed);
  std::optional<std::string> refused();
  Result<membership::Opening> opening(uint64_t round);
  Result<membership::Opening> reach(uint64_t round);
  Result<thinwire::Commit> commit(uint64_t round, uint32_t fragment);
  Result<std::vector<std::shared_ptr<const Bytes>>> payloads(const Commit& commit);
  Result<std::shared_ptr<const Bytes>> payload(const Contribution& contribution);
  Result<std::shared_ptr<const Bytes>> sum(const Commit& commit, float factor);
  void offer(uint64_t round, uint32_t fragment, Bytes payload, const membership::Spent& spent);
  Result<std::vector<membership::Evaluation>> evaluations(int64_t steps, bool due);
  void show_why_silent();
  void end_waits();
  void pause_for(double seconds);
  void completed(int64_t steps);
  void store_snapshot(int64_t steps, Bytes content);
  void say(const membership::Message& message);
  bool stopped() const { return settings_.stop != nullptr && *settings_.stop; }

 private:
  // --- waiting (follower.cpp)
  void notice_denial() REQUIRES(mutex_);
  bool ended() REQUIRES(mutex_);
  Activity catching_up() const REQUIRES(mutex_);
  std::string waiting_text(uint64_t round, const std::vector<int>& missing) const REQUIRES(mutex_);
  // The following let go of the mutex meanwhile.
  // Why nothing arrives: the run cannot be reached, or the coordinator has fallen silent;
  // otherwise empty.
  std::string why_silent() REQUIRES(mutex_);
  // Why it takes longer: why_silent(), or what the coordinator has said; otherwise empty.
  std::string why_longer() REQUIRES(mutex_);
  // Shows why nothing arrives, or else this activity if it has a text.
  void show_why_silent(Activity otherwise) REQUIRES(mutex_);
  // Waits until ready() is true; returns false if the replica has to end. Shows meanwhile what it
  // waits for: `activity`, or why_longer(). Where several wait at a time, the wait for the oldest
  // round is shown.
  bool wait_shown(const Activity& activity, const std::function<bool()>& ready) REQUIRES(mutex_);
  void show(const Activity& activity) EXCLUDES(mutex_);
  void tell(const std::string& text) const EXCLUDES(mutex_);
  // Null if nobody has it.
  Result<std::shared_ptr<const Bytes>> fetch(const transport::BlobId& id, const std::string& holder,
                                             transport::Priority priority) EXCLUDES(mutex_);

  // --- the network (follower_network.cpp)
  // Once the machine has heard something: wakes those that wait, and carries out what it asks for.
  // Lets go of the mutex meanwhile.
  void settle() REQUIRES(mutex_);
  void carry_out(MemberAction& action) EXCLUDES(mutex_);
  void fetch_early(const Holders& holders);
  void read_ledger();
  void ask_for_end();
  void receive(const Bytes& bytes);
  void receive_from_member(const Bytes& bytes);
  void go_on_from(const membership::Overtaken& overtaken);
  void store(OfferName name, const std::shared_ptr<const Bytes>& blob);
  void stop_sending();
  void send_loop();

  transport::Courier& courier_;
  const Signer& signer_;
  const membership::StepPlan& plan_;
  const FollowerSettings settings_;

  mutable Mutex mutex_;
  Condition changed_;
  MemberMachine machine_ GUARDED_BY(mutex_);
  BlobFetcher fetcher_;
  bool given_up_ GUARDED_BY(mutex_) = false;
  std::optional<double> stopped_at_ GUARDED_BY(mutex_);  // when the stop was noticed
  bool unreachable_ GUARDED_BY(mutex_) = false;          // the run, when a wait last looked
  // The rounds of those that are shown, if they are the oldest.
  std::multiset<uint64_t> waits_ GUARDED_BY(mutex_);

  Condition wake_;  // the sender
  bool closing_ GUARDED_BY(mutex_) = false;
  Mutex sending_;  // keeps statements in the order of their numbers
  membership::StatementNumbers numbers_ GUARDED_BY(sending_);
  Mutex showing_;
  std::string shown_ GUARDED_BY(showing_);

  std::unique_ptr<transport::Subscription> ledger_;
  std::unique_ptr<transport::Subscription> statements_;
  std::unique_ptr<transport::Subscription> statements_of_others_;
  std::thread sender_;
};

}  // namespace thinwire::member
