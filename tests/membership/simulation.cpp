#include "simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace thinwire::membership {
namespace {

constexpr double kFaultsUntilSeconds = 120;
constexpr double kTimeoutSeconds = 1500;  // of virtual time, once faults have ended
constexpr int kMinMembers = 3;
constexpr double kDepartureSeconds = 0.3;  // until it is known that a connection has ended

}  // namespace

Simulation::Simulation(uint64_t seed)
    : rng_(seed, 2), network_(seed), stage_{network_, options_, 0, {}, {}, {}, {}} {
  options_.timeout_s = 40;
  options_.quorum = rng_.below(2) == 0 ? 1 : 0.5;
  options_.late_counts = rng_.below(2) == 0;
  options_.shares = rng_.below(2) == 0 ? config::RowShares::kEqual : config::RowShares::kSpeed;
  options_.snapshot_every = 1 + rng_.below(6);
  power_cuts_ = rng_.below(2) == 0;
  stage_.overlap = rng_.below(2);
  plan_ = std::make_unique<FakePlan>(stage_.overlap, 1 + static_cast<uint32_t>(rng_.below(2)),
                                     20 + rng_.below(40));
  const Sha256 weights = sha256(as_bytes("weights"));
  stage_.snapshots[weights] = Replica{{}, weights, {}, false};
  network_.put(weights);
  network_.sync();
  stage_.send = [this](Host& from, const Input& input) {
    network_.to_store(from, [this, input] {
      for (auto& one : coordinators_) {
        network_.to_host(*one, [host = one.get(), input] { host->receive(input); });
      }
    });
  };
  stage_.on_applied = [this](int member, const Replica& replica) {
    check_applied(member, replica);
  };
  stage_.on_discarded = [this](int member) {
    ++outcome_.counts["history given up"];
    if (!network_.lost_anything()) violate(fmt::format("member {} gave up its history", member));
  };
  network_.on_stored = [this](const Bytes& bytes) { check_stored(bytes); };
  const auto ask_member = [this](const Action& action) {
    if (const auto* halt = std::get_if<Halt>(&action)) violate("a coordinator halts: " + halt->why);
    const auto* records = std::get_if<AskRecords>(&action);
    const auto* snapshot = std::get_if<AskSnapshot>(&action);
    const int id = records != nullptr    ? records->member
                   : snapshot != nullptr ? snapshot->member
                                         : -1;
    for (auto& one : members_) {
      if (id < 0 || one->id() != id) continue;
      network_.to_host(*one, [member = one.get(), action] {
        if (const auto* lost = std::get_if<AskRecords>(&action)) {
          member->on_ask_records(lost->first);
        } else {
          member->on_ask_snapshot();
        }
      });
    }
  };
  for (uint64_t i = 0; i < 1 + rng_.below(2); ++i) {
    coordinators_.push_back(
        std::make_unique<CoordinatorHost>(network_, *plan_, options_, i, i > 0, ask_member));
    network_.add(coordinators_.back().get());
  }
  const auto count = static_cast<int>(kMinMembers + rng_.below(4));
  for (int i = 0; i < count; ++i) {
    members_.push_back(std::make_unique<FakeMember>(stage_, i, 0.1 + 0.4 * rng_.uniform()));
    network_.add(members_.back().get());
  }
}

Outcome Simulation::run() {
  for (auto& one : coordinators_) one->start();
  for (auto& one : members_) {
    const bool early = &one - members_.data() < kMinMembers;
    network_.after(early ? rng_.uniform() : 100 * rng_.uniform(), [member = one.get()] {
      if (!member->running) member->start(true);
    });
  }
  const std::function<void()> sync = [this, &sync] {
    network_.sync();
    network_.after(5, sync);
  };
  sync();
  plan_faults(kFaultsUntilSeconds);
  network_.run(kFaultsUntilSeconds, [this] { return !outcome_.violation.empty(); });
  end_faults();
  network_.run(kFaultsUntilSeconds + kTimeoutSeconds,
               [this] { return is_done() || !outcome_.violation.empty(); });
  outcome_.seconds = network_.now();
  outcome_.finished = is_done();
  outcome_.records = network_.ledger.last();
  if (outcome_.violation.empty()) check_end();
  outcome_.trace = sha256(trace_);
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
  CoordinatorHost* host = coordinators_[rng_.below(coordinators_.size())].get();
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

void Simulation::member_fault(FakeMember& member) {
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
      tell_departed(member);
      return back();
    case 2:
      ++outcome_.counts["member disconnected"];
      member.linked = false;
      network_.update_connections();
      tell_departed(member);
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
        for (auto& one : coordinators_) {
          if (one->running) one->receive(Misconduct{*id, "a payload that does not decode"});
        }
      } else if (rng_.below(2) == 0) {
        ++outcome_.counts["bit flipped"];
        member.flip_a_bit();
      }
  }
}

// It may be back by then, and have sent messages.
void Simulation::tell_departed(const FakeMember& member) {
  network_.after(kDepartureSeconds, [this, key = member.key()] {
    for (auto& one : coordinators_) {
      if (one->running) one->receive(Departed{key});
    }
  });
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

void Simulation::end_faults() {
  network_.set_full(false);
  for (auto& one : coordinators_) {
    one->linked = true;
    if (!one->running) one->start();
  }
  for (auto& one : members_) {
    one->linked = true;
    if (!one->running) one->start(true);
  }
  network_.update_connections();
}

FakeMember& Simulation::any_member() { return *members_[rng_.below(members_.size())]; }

int Simulation::running_members() const {
  return static_cast<int>(
      std::ranges::count_if(members_, [](const auto& one) { return one->running && one->id(); }));
}

// --- what must hold

void Simulation::violate(const std::string& what) {
  if (outcome_.violation.empty()) {
    outcome_.violation = fmt::format("{} at {:.1f} s", what, network_.now());
  }
}

// A commit names only bytes that are stored.
void Simulation::check_stored(const Bytes& bytes) {
  ByteWriter(trace_).put(network_.now());
  ByteWriter(trace_).put_bytes(bytes);
  const Record record = *decode_record(bytes);
  if (!record.closing || network_.lost_anything()) return;
  for (const Commit& commit : record.closing->commits) {
    for (const Contribution& one : commit.contributions) {
      if (network_.blobs().contains(one.payload)) continue;
      violate(fmt::format("round {} names bytes that are not stored", record.closing->round));
    }
  }
}

// Replicas are at a prefix of the ledger, and all that are at the same have the same weights.
void Simulation::check_applied(int member, const Replica& replica) {
  const auto stored = network_.ledger.read(replica.position.sequence);
  const bool prefix = stored && record_hash(*stored) == replica.position.hash;
  if (!prefix && !network_.lost_anything()) {
    violate(fmt::format("member {} is at no prefix of the ledger", member));
  }
  if (replica.flipped) return;
  const auto [known, fresh] = weights_after_.try_emplace(replica.position.hash, replica.weights);
  if (known->second != replica.weights) {
    violate(fmt::format("member {} has other weights after record {}", member,
                        replica.position.sequence));
  }
}

bool Simulation::is_done() const {
  const State& state = coordinators_.front()->machine().state();
  if (!state.finished || state.position.sequence != network_.ledger.last()) return false;
  return std::ranges::all_of(members_, [&](const auto& one) {
    const auto id = one->id();
    if (!id) return true;  // it came when the run was over
    if (state.members[static_cast<size_t>(*id)].phase == Phase::kExcluded) return true;
    return one->replica() && one->replica()->position == state.position;
  });
}

std::string Simulation::describe() const {
  std::string text;
  for (const auto& one : coordinators_) {
    const State& state = one->machine().state();
    text += fmt::format("coordinator{} at record {} of {}, open",
                        one->machine().leads() ? " (leads)" : "", state.position.sequence,
                        network_.ledger.last());
    for (const Opening& opening : state.open) {
      text += fmt::format(" {}.{} (", opening.round, opening.epoch);
      for (const Share& share : opening.roster) text += fmt::format("{} ", share.member);
      text += ")";
    }
    text += "; ";
  }
  const State& state = coordinators_.front()->machine().state();
  for (const auto& one : members_) {
    const auto id = one->id();
    if (!id || !state.knows(*id)) {
      text += "not admitted; ";
      continue;
    }
    const Member& known = state.members[static_cast<size_t>(*id)];
    text +=
        fmt::format("member {} {} (record {}), knows {}, has {}; ", *id, name_of(known.phase),
                    known.phase_since, one->state().position.sequence,
                    one->replica() ? static_cast<int64_t>(one->replica()->position.sequence) : -1);
  }
  return text;
}

// Nothing is committed twice, lost or unobtainable; the ledger is the coordinators' whole state.
void Simulation::check_end() {
  if (!outcome_.finished) return violate("no progress: " + describe());
  std::vector<Bytes> records;
  std::set<std::tuple<int, uint64_t, uint32_t>> committed;
  uint64_t round = 0;
  for (uint64_t at = 1; at <= network_.ledger.last(); ++at) {
    records.push_back(*network_.ledger.read(at));
    const Record record = *decode_record(records.back());
    if (!record.closing) continue;
    if (record.closing->round != round++) violate("a round is missing");
    outcome_.counts["left out of a round"] += static_cast<int>(record.closing->missing.size());
    for (const Commit& commit : record.closing->commits) {
      for (const Contribution& one : commit.contributions) {
        if (!committed.emplace(one.member, one.round, commit.operation.fragment).second) {
          violate("a contribution is committed twice");
        }
        if (one.round != record.closing->round) ++outcome_.counts["counted late"];
        if (!network_.blobs().contains(one.payload)) violate("a payload is not obtainable");
      }
    }
  }
  if (round != plan_->rounds()) violate("rounds are missing");
  const Result<State> state = Coordinator::replay(records, fake_verify);
  if (!state) return violate(state.error().message);
  for (const auto& one : coordinators_) {
    const State& own = one->machine().state();
    if (own.position == state->position && own != *state) violate("a coordinator differs");
  }
}

}  // namespace thinwire::membership
