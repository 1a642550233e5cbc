#include "simulated_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/cases.h"

namespace thinwire::membership {
namespace {

constexpr double kDepartureSeconds = 0.3;  // until it is known that a connection has ended

}  // namespace

SimulatedRun::SimulatedRun(Network& network, const StepPlan& plan, const RunSettings& settings)
    : network_(network), plan_(plan), stage_{.network = network} {
  stage_.plan = &plan_;
  stage_.founding = simulated_founding();
  stage_.timeout_s = settings.options.timeout_s;
  stage_.late_counts = settings.options.late_counts;
  stage_.watch = settings.options.watch;
  const Sha256 weights = sha256(as_bytes("weights"));
  stage_.snapshots[weights] = Replica{.weights = weights};
  network_.put(weights);
  network_.sync();
  stage_.say = [this](Host& from, const PublicKey& author, const Message& message) {
    network_.to_store(from, [this, author, message] {
      deliver({stage_.founding.run, author, ++statements_, message});
    });
  };
  stage_.on_applied = [this](int member, const Replica& replica) {
    check_applied(member, replica);
  };
  stage_.on_discarded = [this](int member) {
    ++discarded_;
    if (!network_.lost_anything()) violate(fmt::format("member {} gave up its history", member));
  };
  stage_.on_told = [this](int member, const std::string& text) {
    if (on_told) on_told(member, text);
  };
  network_.on_stored = [this](const Bytes& bytes) { check_stored(bytes); };
  for (uint64_t i = 0; i < settings.coordinators; ++i) {
    coordinators_.push_back(std::make_unique<CoordinatorHost>(
        network_, plan_, settings.options, i, i > 0,
        [this](const PublicKey& author, const Action& action) { ask_members(author, action); }));
    network_.add(coordinators_.back().get());
  }
  for (const double seconds : settings.seconds_per_row) {
    const auto number = static_cast<int>(members_.size());
    members_.push_back(std::make_unique<SimulatedMember>(stage_, number, seconds));
    network_.add(members_.back().get());
  }
}

// --- what is said

namespace {

// What a coordinator takes of a member's message; nothing of what is only displayed.
std::optional<Input> input_of(const Statement& statement, const State& state) {
  return std::visit(Cases{[](const auto& message) -> std::optional<Input> {
                            if constexpr (std::is_constructible_v<Input, decltype(message)>)
                              return message;
                            return std::nullopt;
                          },
                          [&](const Lacking&) -> std::optional<Input> {
                            const auto member = state.find(statement.author);
                            return member ? std::optional<Input>(Lacks{*member}) : std::nullopt;
                          }},
                    statement.message);
}

}  // namespace

// To all coordinators, and to members what is for them.
void SimulatedRun::deliver(const Statement& statement) {
  for (auto& one : coordinators_) {
    network_.to_host(*one, [host = one.get(), statement] {
      const auto input = input_of(statement, host->machine().state());
      if (input) host->receive(*input);
    });
  }
  if (!std::holds_alternative<Lacking>(statement.message)) return;
  for (auto& one : members_) {
    network_.to_host(*one, [member = one.get(), statement] { member->hear(statement); });
  }
}

void SimulatedRun::ask_members(const PublicKey& author, const Action& action) {
  std::optional<Message> message;
  if (const auto* halt = std::get_if<Halt>(&action)) violate("a coordinator halts: " + halt->why);
  if (const auto* records = std::get_if<AskRecords>(&action)) message = *records;
  if (const auto* snapshot = std::get_if<AskSnapshot>(&action)) message = *snapshot;
  if (const auto* refuse = std::get_if<Refuse>(&action)) message = *refuse;
  if (!message) return;
  const Statement statement{stage_.founding.run, author, ++statements_, *message};
  for (auto& one : members_) {
    network_.to_host(*one, [member = one.get(), statement] { member->hear(statement); });
  }
}

// It may be back by then, and have sent messages.
void SimulatedRun::tell_departed(const SimulatedMember& member) {
  network_.after(kDepartureSeconds, [this, key = member.key()] {
    for (auto& one : coordinators_) {
      if (one->running) one->receive(Departed{key});
    }
  });
}

void SimulatedRun::end_faults() {
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

// --- what must hold

void SimulatedRun::violate(const std::string& what) {
  if (violation_.empty()) {
    violation_ = fmt::format("{} at {:.1f} s", what, network_.now());
  }
}

// A commit names only bytes that are stored.
void SimulatedRun::check_stored(const Bytes& bytes) {
  ByteWriter(trace_).put(network_.now());
  ByteWriter(trace_).put_bytes(bytes);
  const Record record = *decode_record(bytes);
  if (on_record) on_record(record);
  if (!record.closing || network_.lost_anything()) return;
  for (const Commit& commit : record.closing->commits) {
    for (const Contribution& one : commit.contributions) {
      if (network_.blobs().contains(one.payload)) continue;
      violate(fmt::format("round {} names bytes that are not stored", record.closing->round));
    }
  }
}

// Replicas are at a prefix of the ledger, and all that are at the same have the same weights.
void SimulatedRun::check_applied(int member, const Replica& replica) {
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

bool SimulatedRun::is_done() const {
  const State& state = coordinators_.front()->machine().state();
  if (!state.finished || state.position.sequence != network_.ledger.last()) return false;
  return std::ranges::all_of(members_, [&](const auto& one) {
    const auto id = state.find(one->key());
    if (!id) return true;  // it came when the run was over
    if (state.members[static_cast<size_t>(*id)].phase == Phase::kExcluded) return true;
    return one->has_finished();
  });
}

std::string SimulatedRun::describe() const {
  std::string text;
  for (const auto& one : coordinators_) {
    const State& state = one->machine().state();
    text += fmt::format("coordinator{} at record {} of {}, open",
                        one->machine().leads() ? " (leads)" : "", state.position.sequence,
                        network_.ledger.last());
    for (const Opening& opening : state.open) {
      text += fmt::format(" {}.{} (", opening.round, opening.epoch);
      for (const Share& share : opening.roster) text += fmt::format("{} ", share.member);
      text += ')';
    }
    text += "; ";
  }
  const State& state = coordinators_.front()->machine().state();
  for (const auto& one : members_) {
    const auto id = state.find(one->key());
    if (!id) {
      text += "not admitted; ";
      continue;
    }
    const Member& known = state.members[static_cast<size_t>(*id)];
    text += fmt::format("member {} {} (record {}), knows {}, has completed {} rounds; ", *id,
                        name_of(known.phase), known.phase_since,
                        one->machine().view().state().position.sequence,
                        one->replica() ? static_cast<int64_t>(one->replica()->rounds) : -1);
  }
  return text;
}

void SimulatedRun::check_end() {
  if (!is_done()) return violate("no progress: " + describe());
  std::vector<Bytes> records;
  uint64_t round = 0;
  for (uint64_t at = 1; at <= network_.ledger.last(); ++at) {
    records.push_back(*network_.ledger.read(at));
    const Record record = *decode_record(records.back());
    if (!record.closing) continue;
    if (record.closing->round != round++) violate("a round is missing");
    check_commits(*record.closing);
  }
  const Result<State> state = Coordinator::replay(records, fake_verify);
  if (!state) return violate(state.error().message);
  const bool is_early = plan_.decides_after(state->next_step) &&
                        state->evaluated.step == state->next_step && round == state->next_round;
  if (round != plan_.rounds() && !is_early) violate("rounds are missing");
  for (const auto& one : coordinators_) {
    const State& own = one->machine().state();
    if (own.position == state->position && own != *state) violate("a coordinator differs");
  }
}

void SimulatedRun::check_commits(const Closing& closing) {
  left_out_ += static_cast<int>(closing.missing.size());
  for (const Commit& commit : closing.commits) {
    for (const Contribution& one : commit.contributions) {
      if (!committed_.emplace(one.member, one.round, commit.operation.fragment).second) {
        violate("a contribution is committed twice");
      }
      if (one.round != closing.round) ++counted_late_;
      if (!network_.blobs().contains(one.payload)) violate("a payload is not obtainable");
    }
  }
}

}  // namespace thinwire::membership
