#include "simulation.h"

#include <algorithm>

namespace thinwire::membership {
namespace {

constexpr double kFaultsUntilSeconds = 120;
constexpr double kTimeoutSeconds = 1500;  // of virtual time, once faults have ended
constexpr int kMinMembers = 3;

}  // namespace

Simulation::Simulation(uint64_t seed)
    : evaluated_(seed % 3 == 0 ? 1 + seed % 4 : 0),
      parts_(seed % 5 == 0 ? 2 + seed % 3 : 1),
      rng_(seed, 2),
      network_(seed),
      power_cuts_(rng_.below(2) == 0),
      plan_(draw_plan()),
      run_(network_, plan_, draw_settings()) {}

FakePlan Simulation::draw_plan() {
  const uint64_t overlap = rng_.below(2);
  const auto fragments = 1 + static_cast<uint32_t>(rng_.below(2));
  const uint64_t rounds = 20 + rng_.below(40);
  if (parts_ > 1) return {0, fragments, rounds / parts_, evaluated_, parts_};
  return {overlap, fragments, rounds, evaluated_};
}

RunSettings Simulation::draw_settings() {
  RunSettings settings;
  settings.options.timeout_s = 40;
  settings.options.quorum = rng_.below(2) == 0 ? 1 : 0.5;
  settings.options.late_counts = rng_.below(2) == 0;
  settings.options.shares =
      rng_.below(2) == 0 ? config::RowShares::kEqual : config::RowShares::kSpeed;
  settings.options.snapshot_every = 1 + rng_.below(6);
  if (evaluated_ > 0) settings.options.watch = "validation";
  if (evaluated_ > 2) settings.options.patience = 4;
  settings.coordinators = 1 + rng_.below(2);
  settings.seconds_per_row.resize(kMinMembers + rng_.below(4));
  for (double& seconds : settings.seconds_per_row) seconds = 0.1 + 0.4 * rng_.uniform();
  return settings;
}

Outcome Simulation::run() {
  for (size_t i = 0; i < run_.coordinators(); ++i) run_.coordinator(i).start();
  for (size_t i = 0; i < run_.members(); ++i) {
    const bool early = i < kMinMembers;
    network_.after(early ? rng_.uniform() : 100 * rng_.uniform(), [member = &run_.member(i)] {
      if (!member->running) member->start(true);
    });
  }
  const std::function<void()> sync = [this, &sync] {
    network_.sync();
    network_.after(5, sync);
  };
  sync();
  plan_faults(kFaultsUntilSeconds);
  network_.run(kFaultsUntilSeconds, [this] { return !run_.violation().empty(); });
  network_.set_full(false);
  run_.end_faults();
  network_.run(kFaultsUntilSeconds + kTimeoutSeconds,
               [this] { return run_.is_done() || !run_.violation().empty(); });
  outcome_.seconds = network_.now();
  outcome_.records = network_.ledger.last();
  if (run_.violation().empty()) run_.check_end();
  outcome_.violation = run_.violation();
  outcome_.counts["history given up"] = run_.discarded();
  outcome_.counts["left out of a round"] = run_.left_out();
  outcome_.counts["counted late"] = run_.counted_late();
  outcome_.trace = sha256(run_.trace());
  return outcome_;
}

// --- faults

void Simulation::plan_faults(double until) {
  const double mean_gap = 2 + 20 * rng_.uniform();
  for (double at = 0;;) {
    at += mean_gap * 2 * rng_.uniform();
    if (at >= until - 1) return;
    network_.after(at, [this] { fault(); });
  }
}

void Simulation::fault() {
  const double seconds = rng_.below(4) == 0 ? 40 * rng_.uniform() : 6 * rng_.uniform();
  const uint64_t kind = rng_.below(10);
  if (kind < 6) return member_fault(any_member());
  if (kind < 8) return store_fault();
  CoordinatorHost* host = &run_.coordinator(rng_.below(run_.coordinators()));
  if (kind == 8 && host->running) {
    ++outcome_.counts["coordinator killed"];
    host->stop();
    network_.after(seconds, [host] {
      if (!host->running) host->start();
    });
  } else {
    ++outcome_.counts["coordinator disconnected"];
    host->linked = false;
    network_.update_connections();
    network_.after(seconds, [this, host] {
      host->linked = true;
      network_.update_connections();
    });
  }
}

void Simulation::member_fault(SimulatedMember& member) {
  if (!member.running) return;
  const double seconds = rng_.below(4) == 0 ? 60 * rng_.uniform() : 8 * rng_.uniform();
  // A payload that both the store and its member lose is lost to everybody.
  const bool disk = power_cuts_ || rng_.below(3) != 0;
  const auto back = [this, seconds, disk, one = &member] {
    network_.after(seconds, [disk, one] {
      if (!one->running) one->start(disk);
    });
  };
  switch (rng_.below(5)) {
    case 0:
    case 1:
      ++outcome_.counts[disk ? "member killed" : "member killed, disk lost"];
      member.stop();
      run_.tell_departed(member);
      return back();
    case 2:
      ++outcome_.counts["member disconnected"];
      member.linked = false;
      network_.update_connections();
      run_.tell_departed(member);
      return network_.after(seconds, [this, one = &member] {
        one->linked = true;
        network_.update_connections();
      });
    case 3:
      ++outcome_.counts["member left"];
      member.leave();
      return network_.after(2, back);
    default:
      if (const auto id = member.id(); id && rng_.below(4) == 0 && running_members() > 4) {
        ++outcome_.counts["misconduct"];
        for (size_t i = 0; i < run_.coordinators(); ++i) {
          CoordinatorHost& one = run_.coordinator(i);
          if (one.running) one.receive(Misconduct{*id, "a payload that does not decode"});
        }
      } else if (rng_.below(2) == 0) {
        ++outcome_.counts["bit flipped"];
        member.flip_a_bit();
      }
  }
}

void Simulation::store_fault() {
  const double seconds = rng_.below(4) == 0 ? 20 * rng_.uniform() : 2 * rng_.uniform();
  switch (rng_.below(3)) {
    case 0:
      ++outcome_.counts["disk full"];
      network_.set_full(true);
      return network_.after(seconds, [this] { network_.set_full(false); });
    case 1:
      ++outcome_.counts["store restarted"];
      return network_.restart_store(seconds, false);
    default:
      if (!power_cuts_ || network_.ledger.last() == 0) return;
      ++outcome_.counts["power cut"];
      network_.restart_store(seconds, true);
  }
}

int Simulation::running_members() {
  int running = 0;
  for (size_t i = 0; i < run_.members(); ++i) {
    running += run_.member(i).running && run_.member(i).id() ? 1 : 0;
  }
  return running;
}

}  // namespace thinwire::membership
