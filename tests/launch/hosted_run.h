// A run of members on many hosts, all in this process: a coordinator's host and members, each on a
// thread of its own, over couriers in memory whose virtual time is the real one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/couriers/courier_memory.h"
#include "tests/launch/forging_courier.h"
#include "tests/launch/listening_courier.h"
#include "tests/launch/withholding_courier.h"
#include "thinwire/base/commit.h"
#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/member/member.h"
#include "thinwire/member/snapshot.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::launch {

class HostedRun {
 public:
  static constexpr uint64_t kRun = 7;  // its id

  // The recipe's run.dir and data.dir are in `folder`; members get run folders beside it.
  // The coordinator looks at payloads before they count, as with `thinwire serve`.
  HostedRun(const config::Recipe& recipe, fs::path folder, membership::Options options,
            const transport::MemoryOptions& network = {});
  ~HostedRun();
  HostedRun(const HostedRun&) = delete;
  HostedRun& operator=(const HostedRun&) = delete;

  // Starts member `number`, which has the same key and folder each time.
  void start(int number);
  // The same, but it cuts its connection for good at its request `last_request` (a blob that it
  // stores or fetches, a statement), counted from 1. Its process then ends.
  void start_dying(int number, int last_request);
  // The same, but it offers something else than what it computed.
  void start_forging(int number, ForgingCourier::Forge forge);
  // The same, but the coordinator hears only of those of its offers for which passes() is true.
  void start_withholding(int number, WithholdingCourier::Passes passes);
  // The same, but it trains on other rows than those that it is assigned.
  void start_straying(int number);
  // The same, with another folder for the base of the run's adapter.
  void start_with_base(int number, const fs::path& base);
  // The same, as a site of so many ranks, which are threads.
  void start_site(int number, int ranks);
  // Starts an auditor, which is no member; the coordinator believes those that admit_auditor() was
  // called for.
  void start_auditor(int number, std::optional<Precision> precision = {});
  void admit_auditor(int number);
  // Members that start from here on stop before they have completed more than so many steps, until
  // release().
  void hold_at(int64_t step);
  void release();
  // Members that start from here on take at least so long for each row.
  void pace(double row_seconds) { row_seconds_ = row_seconds; }
  // Members that start from here on compute with this model, which outlives them.
  void bring(const train::OwnModel& model) { own_model_ = &model; }
  // Whether the coordinator's clock races, so that all soon seem to be silent.
  void race_clock(bool races) { clock_races_ = races; }
  // Asks it to leave, and waits until it has.
  member::MemberResult leave(int number);
  // Cuts its connection off for good and ends it.
  void kill(int number);
  // What became of a member; throws what it threw.
  member::MemberResult wait(int number);
  // Returns when the ledger's state is as wanted; throws Error if it takes minutes.
  void wait_until(const std::function<bool(const membership::State&)>& wanted);
  // Returns when the member with this id has reported that it is where the next round begins.
  void wait_until_caught_up(int member);
  bool is_closed(uint64_t round);
  // The member's id in the ledger, once it has one.
  int id_of(int number);
  // How often a replica has had to start over.
  int fresh_starts() const { return fresh_starts_; }
  // The store loses all payloads that were committed so far.
  void lose_payloads();
  // How often a member has begun with a snapshot.
  int snapshots_fetched() const { return snapshots_fetched_; }
  // How many contributions have counted in a later round than their own.
  size_t counted_late();
  // What auditors have found.
  std::vector<membership::Audit> audits();
  // What the coordinator has said to its user.
  std::vector<std::string> messages();
  // What members have reported of their losses.
  std::vector<membership::Loss> losses();
  // The most members that any round so far opened with, and the newest snapshot.
  size_t largest_roster();
  uint64_t newest_snapshot();
  // Returns when the run is over for everybody.
  void wait_until_over();

  transport::MemoryNetwork& network() { return network_; }
  serve::CoordinatorHost& host() { return *host_; }
  const config::Recipe& recipe() const { return resolved_; }
  const membership::RecipePlan& plan() const { return *plan_; }

 private:
  struct Participant {
    std::unique_ptr<Signer> signer;
    std::unique_ptr<transport::Courier> courier;
    std::vector<std::unique_ptr<transport::Communicator>> ranks;  // of its site
    std::atomic<bool> stop = false;
    std::thread thread;
    member::MemberResult result;
    std::exception_ptr failure;
  };

  void start(int number, std::unique_ptr<Participant> member);
  void start(member::MemberOptions options, int number, std::unique_ptr<Participant> member);
  member::MemberOptions options_of(int number, Participant& member);
  void wait_if_held(const member::Activity& activity, int64_t step, const std::atomic<bool>& stop);
  std::string description() const;
  void run_network();
  void run_host();
  Participant& participant(int number) { return *members_.at(number); }

  const config::Recipe recipe_;
  const fs::path folder_;
  const std::unique_ptr<data::Vocabulary> vocabulary_;  // null for an external model
  transport::MemoryNetwork network_;
  std::atomic<bool> ends_ = false;
  std::thread clock_;
  config::Recipe resolved_;
  const membership::Options options_;
  const std::unique_ptr<Signer> signer_;
  std::unique_ptr<transport::Courier> courier_;
  std::unique_ptr<membership::RecipePlan> plan_;
  member::InitialState initial_state_;
  std::unique_ptr<serve::CoordinatorHost> host_;
  std::mutex mutex_;
  std::condition_variable changed_;
  membership::State state_;
  size_t largest_roster_ = 0;
  std::vector<Contribution> committed_;
  size_t counted_late_ = 0;
  std::vector<membership::Loss> losses_;
  std::vector<membership::Audit> audits_;
  std::vector<std::string> messages_;
  std::set<PublicKey> auditors_;
  std::optional<int64_t> held_at_;
  double row_seconds_ = 0;
  const train::OwnModel* own_model_ = nullptr;
  std::atomic<bool> stop_host_ = false;
  std::atomic<bool> clock_races_ = false;
  std::atomic<int> fresh_starts_ = 0;
  std::atomic<int> snapshots_fetched_ = 0;
  std::thread host_thread_;
  std::map<int, std::unique_ptr<Participant>> members_;
};

}  // namespace thinwire::launch
