// The internals of a Follower (follower.h), shared by its sources: what the worker waits for
// (follower.cpp), and the network (follower_network.cpp). The machine decides everything.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "thinwire/member/blob_fetcher.h"
#include "thinwire/member/follower.h"
#include "thinwire/member/member_machine.h"
#include "thinwire/membership/message_codec.h"

namespace thinwire::member {

class Follower::Impl : public std::enable_shared_from_this<Follower::Impl> {
 public:
  using Lock = std::unique_lock<std::mutex>;

  Impl(transport::Courier& courier, const Signer& signer, const membership::StepPlan& plan,
       FollowerSettings settings);

  void start();
  void close();
  void announce_leaving(double seconds);

  // What `call` returns for the machine, which it only looks at.
  template <typename Call>
  auto look(Call call) const {
    const std::lock_guard lock(mutex_);
    return call(machine_);
  }
  // What `call` returns for the machine, whose actions are carried out afterwards.
  template <typename Call>
  auto with_machine(Call call) {
    Lock lock(mutex_);
    if constexpr (std::is_void_v<decltype(call(machine_))>) {
      call(machine_);
      settle(lock);
    } else {
      auto answer = call(machine_);
      settle(lock);
      return answer;
    }
  }

  Result<StartState> wait_start_state();
  bool begin(const StartState& start, int64_t completed);
  std::optional<std::string> refused();
  Result<membership::Opening> opening(uint64_t round);
  Result<thinwire::Commit> commit(uint64_t round, uint32_t fragment);
  Result<std::vector<std::shared_ptr<const Bytes>>> payloads(const Commit& commit);
  Result<std::shared_ptr<const Bytes>> payload(const Contribution& contribution);
  Result<std::shared_ptr<const Bytes>> sum(const Commit& commit, WireType format, float factor);
  void offer(uint64_t round, uint32_t fragment, Bytes payload, double seconds);
  void show_why_silent();
  void end_waits();
  void pause_for(double seconds);
  void completed(int64_t steps);
  void store_snapshot(int64_t steps, Bytes content);
  void say(const membership::Message& message);
  bool stopped() const { return settings_.stop != nullptr && *settings_.stop; }

 private:
  // --- waiting (follower.cpp); with the lock held
  void notice_denial();
  bool ended();
  Activity catching_up() const;
  std::string waiting_text(uint64_t round, const std::vector<int>& missing) const;
  // The following let go of the lock meanwhile.
  // Why nothing arrives: the run cannot be reached, or the coordinator has fallen silent;
  // otherwise empty.
  std::string why_silent(Lock& lock);
  // Why it takes longer: why_silent(), or what the coordinator has said; otherwise empty.
  std::string why_longer(Lock& lock);
  // Shows why nothing arrives, or else this activity if it has a text.
  void show_why_silent(Lock& lock, Activity otherwise);
  // Waits until ready() is true; returns false if the replica has to end. Shows meanwhile what it
  // waits for: `activity`, or why_longer(). Where several wait at a time, the wait for the oldest
  // round is shown.
  bool wait_shown(Lock& lock, const Activity& activity, const std::function<bool()>& ready);
  // Without the lock:
  void show(const Activity& activity);
  void tell(const std::string& text) const;
  // Null if nobody has it.
  Result<std::shared_ptr<const Bytes>> fetch(const transport::BlobId& id, const std::string& holder,
                                             transport::Priority priority);

  // --- the network (follower_network.cpp)
  // Once the machine has heard something: wakes those that wait, and carries out what it asks for.
  // Lets go of the lock meanwhile.
  void settle(Lock& lock);
  // Without the lock:
  void carry_out(MemberAction& action);
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

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  MemberMachine machine_;
  BlobFetcher fetcher_;
  bool given_up_ = false;
  std::optional<double> stopped_at_;  // when the stop was noticed
  bool unreachable_ = false;          // the run, when a wait last looked
  std::multiset<uint64_t> waits_;     // the rounds of those that are shown, if they are the oldest

  std::condition_variable wake_;  // the sender
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
