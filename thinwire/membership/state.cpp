#include "thinwire/membership/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <string>
#include <utility>

namespace thinwire::membership {
namespace {

auto refuse(const std::string& what) { return fail(FailureKind::kCorruptPayload, what); }

constexpr size_t kSnapshotsKept = 2;

// Applies one record to a state that is thrown away if that fails.
class Applier {
 public:
  Applier(State& state, const Record& record) : state_(state), record_(record) {}

  Result<void> run() {
    for (const Change& change : record_.changes) {
      auto done = std::visit([this](const auto& one) { return apply(one); }, change);
      if (!done) return done;
    }
    if (!state_.founding) return refuse("the first record does not found the run");
    if (!std::ranges::binary_search(state_.founding->coordinators, record_.writer)) {
      return refuse("its writer is not a coordinator of this run");
    }
    if (record_.closing) {
      if (auto done = apply(*record_.closing); !done) return done;
    }
    for (const Opening& opening : record_.openings) {
      if (auto done = apply(opening); !done) return done;
    }
    return {};
  }

 private:
  Result<void> apply(const Founding& founding) {
    if (state_.founding || record_.sequence != 1) return refuse("the run is founded twice");
    if (!std::ranges::is_sorted(founding.coordinators)) return refuse("coordinators out of order");
    state_.founding = founding;
    state_.snapshots[0] = {founding.weights, founding.weights_bytes, {}};
    return {};
  }

  Result<void> apply(const Admission& admission) {
    if (!state_.founding) return refuse("a member of a run that is not founded");
    if (static_cast<size_t>(admission.member) != state_.members.size()) {
      return refuse(fmt::format("member {} is admitted, but the next id is {}", admission.member,
                                state_.members.size()));
    }
    if (state_.find(admission.key)) return refuse("a member is admitted twice");
    state_.members.emplace_back().key = admission.key;
    state_.by_key.insert(state_.place_of(admission.key), admission.member);
    return {};
  }

  Result<void> apply(const PhaseChange& change) {
    if (auto known = check(change.member); !known) return known;
    Member& member = state_.members[static_cast<size_t>(change.member)];
    if (member.phase == Phase::kExcluded) {
      return refuse(fmt::format("member {} is excluded for good", change.member));
    }
    if (change.snapshot && !state_.snapshots.contains(*change.snapshot)) {
      return refuse(fmt::format("there is no snapshot {}", *change.snapshot));
    }
    member.phase = change.phase;
    member.phase_since = record_.sequence;
    member.snapshot = change.snapshot;
    return {};
  }

  Result<void> apply(const Snapshot& snapshot) {
    if (auto known = check(snapshot.member); !known) return known;
    if (snapshot.sequence >= record_.sequence)
      return refuse("a snapshot of a record that does not exist yet");
    const auto [held, fresh] = state_.snapshots.try_emplace(
        snapshot.sequence, HeldSnapshot{snapshot.content, snapshot.bytes, {}});
    if (!fresh &&
        (held->second.content != snapshot.content || held->second.bytes != snapshot.bytes)) {
      return refuse(fmt::format("snapshot {} differs from the one held", snapshot.sequence));
    }
    held->second.holders.insert(snapshot.member);
    while (state_.snapshots.size() > kSnapshotsKept)
      state_.snapshots.erase(state_.snapshots.begin());
    std::erase_if(state_.closed_bytes,
                  [this](const auto& one) { return one.first <= state_.replayable_from(); });
    return {};
  }

  Result<void> apply(const Speed& speed) {
    if (auto known = check(speed.member); !known) return known;
    state_.members[static_cast<size_t>(speed.member)].rows_per_second = speed.rows_per_second;
    return {};
  }

  Result<void> apply(const Offence& offence) {
    if (auto known = check(offence.member); !known) return known;
    Member& member = state_.members[static_cast<size_t>(offence.member)];
    if (offence.kind == OffenceKind::kConduct) {
      ++member.misconduct;
    } else {
      member.refusals.push_back(state_.next_round);
    }
    return {};
  }

  Result<void> apply(const AgreedDigest& agreed) {
    const auto [known, fresh] = state_.agreed_digests.try_emplace(agreed.round, agreed.digest);
    if (!fresh && known->second == agreed.digest) {
      return refuse(fmt::format("the digest of round {} is agreed on twice", agreed.round));
    }
    known->second = agreed.digest;  // the current majority may outvote the earlier one
    Evaluated& evaluated = state_.evaluated;
    if (evaluated.best_step > 0 && agreed.round == evaluated.best_round) {
      evaluated.best_digest = agreed.digest;
    }
    if (state_.agreed_digests.size() > State::kDigestsKept) {
      state_.agreed_digests.erase(state_.agreed_digests.begin());
    }
    return {};
  }

  // It is of the weights after the rounds so far, all of which are closed.
  Result<void> apply(const Evaluation& evaluation) {
    if (!state_.open.empty() || evaluation.step != state_.next_step ||
        evaluation.step <= state_.evaluated.step) {
      return refuse(fmt::format("an evaluation after {} steps, which is not due", evaluation.step));
    }
    Evaluated& evaluated = state_.evaluated;
    evaluated.step = evaluation.step;
    if (evaluation.loss && evaluated.is_better(*evaluation.loss)) {
      const uint64_t round = state_.next_round - 1;
      const auto agreed = state_.agreed_digests.find(round);
      evaluated.best_step = evaluation.step;
      evaluated.best_loss = *evaluation.loss;
      evaluated.best_round = round;
      evaluated.best_digest =
          agreed == state_.agreed_digests.end() ? std::nullopt : std::optional(agreed->second);
      evaluated.since = 0;
    } else if (evaluation.loss) {
      ++evaluated.since;
    }
    if (evaluation.ends) state_.finished = true;
    return {};
  }

  Result<void> apply(const Closing& closing) {
    if (state_.open.empty() || state_.open.front().round != closing.round) {
      return refuse(fmt::format("round {} is closed out of order", closing.round));
    }
    const Opening opening = std::move(state_.open.front());
    state_.open.pop_front();
    if (closing.commits.size() != opening.operations.size()) {
      return refuse(fmt::format("round {} has {} operations, {} are committed", closing.round,
                                opening.operations.size(), closing.commits.size()));
    }
    std::set<int> missing;
    uint64_t bytes = 0;
    for (size_t i = 0; i < closing.commits.size(); ++i) {
      if (auto right = check(closing.commits[i], opening, opening.operations[i]); !right) {
        return right;
      }
      for (const Contribution& one : closing.commits[i].contributions) bytes += one.bytes;
      set_overdue(closing.commits[i], opening, opening.operations[i], missing);
    }
    if (!std::ranges::equal(missing, closing.missing)) {
      return refuse(fmt::format("round {} names the wrong members as missing", closing.round));
    }
    state_.last_closing = record_.sequence;
    state_.closed_bytes[record_.sequence] = bytes;
    state_.finished = opening.last;
    return {};
  }

  // Whether each contribution is from the round's roster or overdue, occurs once, and has an
  // allowed size and weight.
  Result<void> check(const Commit& commit, const Opening& opening,
                     const PlannedOperation& operation) const {
    const OperationKey key{state_.founding->run, opening.epoch, opening.round, operation.fragment};
    if (commit.operation != key) return refuse("a commit of an operation that is not open");
    const Contribution* before = nullptr;
    for (const Contribution& one : commit.contributions) {
      if (before != nullptr &&
          std::pair(before->member, before->round) >= std::pair(one.member, one.round)) {
        return refuse("contributions are out of order");
      }
      before = &one;
      OverdueTerms terms{key, weight_of(opening, one.member), operation.max_bytes};
      if (one.round != opening.round) {
        const OverdueTerms* late =
            state_.overdue_terms({one.member, one.round, operation.fragment});
        terms = late == nullptr ? OverdueTerms() : *late;
      }
      if (terms.weight == 0 || terms.weight != one.weight || one.bytes > terms.max_bytes) {
        return refuse(
            fmt::format("member {}'s contribution of round {} has the wrong weight or size",
                        one.member, one.round));
      }
    }
    if (std::bit_cast<uint32_t>(commit.scale) !=
        std::bit_cast<uint32_t>(commit_scale(commit.contributions))) {
      return refuse("a commit's scale is not that of its weights");
    }
    return {};
  }

  // Members of the roster that are not in the commit are missing; their contributions may count
  // when the fragment is next exchanged, and after that no longer.
  void set_overdue(const Commit& commit, const Opening& opening, const PlannedOperation& operation,
                   std::set<int>& missing) {
    std::erase_if(state_.overdue,
                  [&](const auto& one) { return one.first.fragment == operation.fragment; });
    for (const Share& share : opening.roster) {
      if (contribution_of(commit, share.member, opening.round) != nullptr) continue;
      missing.insert(share.member);
      state_.overdue[{share.member, opening.round, operation.fragment}] = {
          commit.operation, weight_of(opening, share.member), operation.max_bytes};
    }
  }

  Result<void> apply(const Opening& opening) {
    if (state_.finished) return refuse("a round opens after the last one");
    if (auto placed = place(opening); !placed) return placed;
    if (opening.roster.empty()) {
      return refuse(fmt::format("round {} has no members", opening.round));
    }
    uint64_t row = 0;
    int next = 0;
    for (const Share& share : opening.roster) {
      if (auto known = check(share.member); !known) return known;
      if (share.member < next || share.rows.first != row || share.rows.count == 0 ||
          share.rows.count > UINT32_MAX) {
        return refuse(fmt::format("round {}'s rows are not each assigned to exactly one member",
                                  opening.round));
      }
      if (state_.members[static_cast<size_t>(share.member)].phase != Phase::kActive) {
        return refuse(fmt::format("member {} is in a roster but not active", share.member));
      }
      next = share.member + 1;
      row += share.rows.count;
    }
    if (!std::ranges::is_sorted(opening.operations, std::ranges::less_equal(),
                                &PlannedOperation::fragment)) {
      return refuse("operations are out of order");  // or one is there twice
    }
    return {};
  }

  // The next round, or an open round reopened in a later epoch, with all opened after it.
  Result<void> place(const Opening& opening) {
    const bool reopened = opening.round < state_.next_round;
    if (reopened) {
      const Opening* old = state_.opening(opening.round);
      if (old == nullptr || old->epoch >= opening.epoch || old->first_step != opening.first_step) {
        return refuse(fmt::format("round {} cannot be reopened", opening.round));
      }
      while (!state_.open.empty() && state_.open.back().round >= opening.round) {
        state_.open.pop_back();
      }
    } else if (opening.round != state_.next_round || opening.first_step != state_.next_step ||
               state_.epoch > opening.epoch || (!state_.open.empty() && state_.open.back().last)) {
      return refuse(fmt::format("round {} opens out of order", opening.round));
    }
    state_.next_round = opening.round + 1;
    state_.next_step = opening.first_step + opening.steps.size();
    state_.epoch = opening.epoch;
    state_.open.push_back(opening);
    forgive();
    return {};
  }

  // An excluded member stays as it is: its offences are the reason.
  void forgive() {
    for (Member& member : state_.members) {
      if (member.phase == Phase::kExcluded) continue;
      std::erase_if(member.refusals, [this](uint64_t round) {
        return round + State::kRefusalRounds < state_.next_round;
      });
    }
  }

  Result<void> check(int member) const {
    if (state_.knows(member)) return {};
    return refuse(fmt::format("there is no member {}", member));
  }

  State& state_;
  const Record& record_;
};

}  // namespace

Result<void> State::apply(const Record& record, const Sha256& hash) {
  if (record.sequence != position.sequence + 1) {
    return refuse(
        fmt::format("record {} does not follow record {}", record.sequence, position.sequence));
  }
  if (record.previous != position.hash) {
    return refuse(
        fmt::format("record {} follows a different record {}", record.sequence, position.sequence));
  }
  State next = *this;
  if (auto done = Applier(next, record).run(); !done) return done;
  next.position = {record.sequence, hash};
  *this = std::move(next);
  return {};
}

std::vector<int>::const_iterator State::place_of(const PublicKey& key) const {
  return std::ranges::lower_bound(by_key, key, {}, [this](int member) -> const PublicKey& {
    return members[static_cast<size_t>(member)].key;
  });
}

std::optional<int> State::find(const PublicKey& key) const {
  const auto place = place_of(key);
  if (place == by_key.end() || members[static_cast<size_t>(*place)].key != key) return std::nullopt;
  return *place;
}

bool State::has_several_present() const {
  const auto present = [](const Member& member) { return !is_gone(member.phase); };
  const auto first = std::ranges::find_if(members, present);
  return first != members.end() && std::any_of(first + 1, members.end(), present);
}

const Opening* State::opening(uint64_t round) const {
  const auto found = std::ranges::find(open, round, &Opening::round);
  return found == open.end() ? nullptr : &*found;
}

uint64_t State::oldest_countable() const {
  uint64_t oldest = open.empty() ? next_round : open.front().round;
  for (const auto& [late, terms] : overdue) oldest = std::min(oldest, late.round);
  return oldest;
}

uint64_t weight_of(const Opening& opening, int member) {
  const Share* const share = share_of(opening, member);
  return share == nullptr ? 0 : share->rows.count * std::max<size_t>(opening.steps.size(), 1);
}

}  // namespace thinwire::membership
