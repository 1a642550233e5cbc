// A run of members without models, coordinators and a store in virtual time, and what must never
// happen in it. Simulation (simulation.h) adds faults by a seed, scenarios_test.cpp those of a
// script.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "fake_signer.h"
#include "network.h"
#include "simulated_member.h"
#include "thinwire/membership/coordinator.h"

namespace thinwire::membership {

Founding simulated_founding();

// Rounds without a model: `rounds` rounds of two steps with one or two fragments. An evaluation
// after each `evaluated` of them decides something; 0: none does. Without overlap, only the first
// of each `parts` rounds may have steps: `rounds` and `evaluated` then count these.
class FakePlan final : public StepPlan {
 public:
  FakePlan(uint64_t overlap, uint32_t fragments, uint64_t rounds, uint64_t evaluated = 0,
           uint64_t parts = 1)
      : overlap_(overlap),
        fragments_(fragments),
        rounds_(rounds * parts),
        evaluated_(evaluated),
        parts_(parts) {}
  uint64_t workers() const override { return 3; }
  uint64_t batch() const override { return 8; }
  uint64_t overlap() const override { return overlap_; }
  uint64_t rounds() const override { return rounds_; }
  Opening round(uint64_t number) const override;
  uint64_t round_of(uint64_t step) const override { return step / kStepsPerRound * parts_; }
  bool ends_after(uint64_t completed) const override { return completed % kStepsPerRound == 0; }
  uint64_t last_ended(uint64_t completed) const override {
    return completed / kStepsPerRound * parts_ - 1;
  }
  uint64_t settled_rounds(uint64_t completed) const override;
  bool decides_after(uint64_t completed) const override {
    return evaluated_ > 0 && completed > 0 && completed % (evaluated_ * kStepsPerRound) == 0;
  }

 private:
  static constexpr uint64_t kStepsPerRound = 2;

  uint64_t overlap_;
  uint32_t fragments_;
  uint64_t rounds_;
  uint64_t evaluated_;
  uint64_t parts_;
};

class CoordinatorHost final : public Host {
 public:
  // What a coordinator asks members, or halts with.
  using SayAction = std::function<void(const PublicKey& author, const Action&)>;
  CoordinatorHost(Network& network, const RunPlan& plan, const Options& options, uint64_t number,
                  bool standby, SayAction say);
  void start();
  void stop();
  void receive(const Input& input);
  void on_connected(uint64_t last) override;
  void on_disconnected() override;
  void on_record(const Bytes& record) override;
  const Coordinator& machine() const { return *machine_; }

 private:
  void keep_ticking(uint64_t process);
  void carry_out(const Action& action);

  Network& network_;
  const RunPlan& plan_;
  const Options options_;
  const FakeSigner signer_;
  const bool standby_;
  const SayAction say_;
  std::unique_ptr<Coordinator> machine_;
  uint64_t process_ = 0;
};

struct RunSettings {
  Options options = {};
  uint64_t coordinators = 1;            // all but the first stand by
  std::vector<double> seconds_per_row;  // of each member
};

class SimulatedRun {
 public:
  // `network` and `plan` must outlive it.
  SimulatedRun(Network& network, const StepPlan& plan, const RunSettings& settings);

  SimulatedMember& member(size_t number) { return *members_[number]; }
  CoordinatorHost& coordinator(size_t number) { return *coordinators_[number]; }
  size_t members() const { return members_.size(); }
  size_t coordinators() const { return coordinators_.size(); }
  // The coordinators hear that the member's connection has ended.
  void tell_departed(const SimulatedMember& member);
  // Everybody is connected, and whose process has ended starts it with what its disk has.
  void end_faults();
  // Every round was closed, and everybody that is there has applied it.
  bool is_done() const;
  // Nothing is committed twice, lost or unobtainable; the ledger is the coordinators' whole state.
  void check_end();

  const std::string& violation() const { return violation_; }  // empty: nothing did happen
  std::string describe() const;                                // where everybody is
  int discarded() const { return discarded_; }                 // replicas of another history
  int left_out() const { return left_out_; }                   // of rounds; by check_end()
  int counted_late() const { return counted_late_; }
  const Bytes& trace() const { return trace_; }

  // Hears of each record that is stored, and of what a member tells its user.
  std::function<void(const Record&)> on_record;
  std::function<void(int member, const std::string&)> on_told;

 private:
  void deliver(const Statement& statement);
  void ask_members(const PublicKey& author, const Action& action);
  void check_stored(const Bytes& bytes);
  void check_applied(int member, const Replica& replica);
  void check_commits(const Closing& closing);
  void violate(const std::string& what);

  Network& network_;
  const StepPlan& plan_;
  Stage stage_;
  uint64_t statements_ = 0;
  std::vector<std::unique_ptr<CoordinatorHost>> coordinators_;
  std::vector<std::unique_ptr<SimulatedMember>> members_;
  std::map<Sha256, Sha256> weights_after_;  // by record
  std::set<std::tuple<int, uint64_t, uint32_t>> committed_;
  Bytes trace_;
  std::string violation_;
  int discarded_ = 0, left_out_ = 0, counted_late_ = 0;
};

}  // namespace thinwire::membership
