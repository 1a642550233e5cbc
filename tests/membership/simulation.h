// A run of fake members, one or two coordinators and a store in virtual time, with faults by a
// seed. The same seed gives the same trace.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fake_member.h"
#include "fake_signer.h"
#include "network.h"
#include "thinwire/membership/coordinator.h"

namespace thinwire::membership {

struct Outcome {
  std::string violation;  // of what must never happen; empty: nothing did
  bool finished = false;  // every round was closed, and everybody that is there has applied it
  double seconds = 0;     // of virtual time
  Sha256 trace;
  uint64_t records = 0;
  std::map<std::string, int> counts;  // of faults, and of what the ledger says about them
};

// Rounds without a model: `rounds` rounds of two steps with one or two fragments.
class FakePlan final : public RunPlan {
 public:
  FakePlan(uint64_t overlap, uint32_t fragments, uint64_t rounds)
      : overlap_(overlap), fragments_(fragments), rounds_(rounds) {}
  uint64_t workers() const override { return 3; }
  uint64_t batch() const override { return 8; }
  uint64_t overlap() const override { return overlap_; }
  uint64_t rounds() const override { return rounds_; }
  Opening round(uint64_t number) const override;

 private:
  uint64_t overlap_;
  uint32_t fragments_;
  uint64_t rounds_;
};

class CoordinatorHost final : public Host {
 public:
  CoordinatorHost(Network& network, const RunPlan& plan, const Options& options, uint64_t number,
                  bool standby, std::function<void(const Action&)> ask_member);
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
  const std::function<void(const Action&)> ask_member_;
  std::unique_ptr<Coordinator> machine_;
  uint64_t process_ = 0;
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed);
  Outcome run();

 private:
  void plan_faults(double until);
  void fault();
  void member_fault(FakeMember& member);
  void tell_departed(const FakeMember& member);
  void store_fault();
  void end_faults();
  bool is_done() const;
  void check_stored(const Bytes& bytes);
  void check_applied(int member, const Replica& replica);
  void check_end();
  void violate(const std::string& what);
  std::string describe() const;  // where everybody is
  FakeMember& any_member();
  int running_members() const;

  Rng rng_;
  Network network_;
  Options options_;
  std::unique_ptr<FakePlan> plan_;
  Stage stage_;
  std::vector<std::unique_ptr<CoordinatorHost>> coordinators_;
  std::vector<std::unique_ptr<FakeMember>> members_;
  bool power_cuts_ = false;
  std::map<Sha256, Sha256> weights_after_;  // by record
  Bytes trace_;
  Outcome outcome_;
};

}  // namespace thinwire::membership
