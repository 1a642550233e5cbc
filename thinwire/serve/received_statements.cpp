// What members, newcomers, auditors and the server say to a coordinator's host: who may say it,
// what is dropped, and what is noted of it.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "thinwire/base/clock.h"
#include "thinwire/serve/coordinator_host_impl.h"

namespace thinwire::serve {

void CoordinatorHost::Impl::take(const ReceivedStatement& received) {
  auto statement = membership::decode_statement(received.bytes, options_.founding.run, verify);
  if (!statement) return;
  if (const auto* overtaken = std::get_if<membership::Overtaken>(&statement->message)) {
    return take(*overtaken);
  }
  if (!received_.is_new(statement->author, statement->number, received.bytes)) {
    return tell_if_overtaken(*statement);
  }
  if (!is_admissible(*statement)) return;
  note(statement->message);
  const auto* loss = std::get_if<membership::Loss>(&statement->message);
  if (loss != nullptr && options_.hooks.loss) options_.hooks.loss(*loss);
  const auto* audit = std::get_if<membership::Audit>(&statement->message);
  if (audit != nullptr) take(*audit, statement->author);
  if (std::holds_alternative<membership::Lacking>(statement->message)) {
    inputs_.emplace_back(membership::Lacks{*coordinator_.state().find(statement->author)});
  }
  std::visit(
      [this](auto& one) {
        using Kind = std::decay_t<decltype(one)>;
        if constexpr (std::is_constructible_v<Input, Kind>) inputs_.emplace_back(std::move(one));
      },
      statement->message);
}

// The coordinator before this one, or another that has the same key, had a clock that was ahead.
void CoordinatorHost::Impl::take(const membership::Overtaken& overtaken) {
  const auto later = membership::decode_statement(overtaken.later, options_.founding.run, verify);
  if (!later || later->author != signer_.key() || !numbers_.go_on_from(later->number)) return;
  notify(
      "members dropped what this coordinator said: a coordinator whose clock was ahead had said "
      "something before. It goes on from there");
}

void CoordinatorHost::Impl::tell_if_overtaken(const membership::Statement& statement) {
  const auto overtaken = received_.overtaken(statement.author, statement.number);
  if (!overtaken || !coordinator_.leads()) return;
  const bool was_ahead = received_.is_ahead(statement.author, unix_seconds());
  const auto [told, first] = told_overtaken_.try_emplace({statement.author, was_ahead}, awake_);
  if (!first && awake_ - told->second < options_.membership.report_s()) return;
  told->second = awake_;
  send(*overtaken);
  if (!first) return;
  const std::string author = "the participant with key " + key_id(statement.author);
  if (was_ahead) {
    notify(fmt::format(
        "what {} says is dropped until it goes on from what it said before, when its clock was "
        "ahead; it is told so",
        author));
  } else {
    notify(fmt::format(
        "something that {} said was dropped, because what it said later arrived first: it was held "
        "up, or that machine's clock was set back; it is told so",
        author));
  }
}

void CoordinatorHost::Impl::take(const ReceivedDeparture& received) {
  const auto notice = transport::parse_connection_notice(received.bytes);
  if (!notice) return;
  inputs_.emplace_back(membership::Departed{notice->owner});
  const auto member = coordinator_.state().find(notice->owner);
  if (!member) return;
  const Lock lock(mutex_);
  reports_.disconnected(*member);
}

// Whether its author may send it.
bool CoordinatorHost::Impl::is_admissible(const membership::Statement& statement) {
  const membership::State& state = coordinator_.state();
  if (membership::is_from_coordinator(statement.message)) {
    return std::holds_alternative<membership::Misconduct>(statement.message) && state.founding &&
           std::ranges::binary_search(state.founding->coordinators, statement.author);
  }
  if (options_.hooks.is_revoked && options_.hooks.is_revoked(statement.author)) {
    dismiss(statement.author);
    return false;
  }
  if (std::holds_alternative<membership::Audit>(statement.message)) return is_auditors(statement);
  if (const auto* join = std::get_if<membership::JoinRequest>(&statement.message)) {
    if (join->key != statement.author) return false;
    const std::string why =
        options_.hooks.refuse ? options_.hooks.refuse(join->key) : std::string();
    if (!why.empty() && coordinator_.leads()) act(membership::Refuse{join->key, why});
    return why.empty();
  }
  if (std::holds_alternative<membership::Lacking>(statement.message)) {
    return state.find(statement.author).has_value();
  }
  const int member = membership::sender(statement.message);
  if (!state.knows(member)) return may_give_back(statement);
  return state.members[static_cast<size_t>(member)].key == statement.author;
}

// Members that the ledger does not know, because the store has lost records, may say what concerns
// these.
bool CoordinatorHost::Impl::may_give_back(const membership::Statement& statement) const {
  const bool concerns = std::holds_alternative<membership::Report>(statement.message) ||
                        std::holds_alternative<membership::Supply>(statement.message);
  return concerns && (!options_.hooks.refuse || options_.hooks.refuse(statement.author).empty());
}

void CoordinatorHost::Impl::dismiss(const PublicKey& key) {
  const membership::State& state = coordinator_.state();
  const auto member = state.find(key);
  const bool is_excluded =
      member && state.members[static_cast<size_t>(*member)].phase == membership::Phase::kExcluded;
  if (is_excluded) return;
  // A member has the ledger's word, too; whoever asks to become one has not.
  const bool is_told = member && !told_dismissed_.insert(key).second;
  if (coordinator_.leads() && !is_told) act(membership::Refuse{key, "its key was revoked"});
  inputs_.emplace_back(membership::Dismissed{key});
}

bool CoordinatorHost::Impl::is_auditors(const membership::Statement& statement) {
  const bool is_auditor = options_.hooks.is_auditor && options_.hooks.is_auditor(statement.author);
  if (!is_auditor && coordinator_.leads()) {
    act(membership::Refuse{statement.author,
                           "its key is not an auditor's: only those who enrolled "
                           "with an auditor's token may audit"});
  }
  return is_auditor &&
         coordinator_.state().knows(std::get<membership::Audit>(statement.message).member);
}

void CoordinatorHost::Impl::take(const membership::Audit& audit, const PublicKey& author) {
  AuditBoard& board = audits_.try_emplace(author, options_.equal_rows).first->second;
  const std::string why = board.take(audit);
  {
    const auto [audits, effect] = board.of(audit.member);
    const Lock lock(mutex_);
    reports_.audited(audit.member, audits, effect);
  }
  if (why.empty()) return;
  inputs_.emplace_back(membership::Misconduct{audit.member, why});
  notify(fmt::format("member {} does not compute what it is assigned: {}", audit.member, why));
  if (!coordinator_.leads()) return;
  send(
      membership::Refuse{coordinator_.state().members[static_cast<size_t>(audit.member)].key, why});
}

void CoordinatorHost::Impl::note(const Message& message) {
  const Lock lock(mutex_);
  if (const auto* join = std::get_if<membership::JoinRequest>(&message)) reports_.receive(*join);
  const int member = membership::sender(message);
  if (!coordinator_.state().knows(member)) return;
  reports_.receive(member, coordinator_.state().members[static_cast<size_t>(member)].key, message,
                   awake_);
  if (const auto* offer = std::get_if<Offer>(&message)) {
    note(*offer);
  } else if (const auto* announced = std::get_if<membership::Announcement>(&message)) {
    if (coordinator_.is_expected(announced->offer)) filter_.offered(announced->offer);
  }
}

// Equal bytes may be offered for several operations.
void CoordinatorHost::Impl::note(const Offer& offer) {
  if (!coordinator_.is_expected(offer) || !filter_.offered(offer)) return;
  const auto [first, last] = offers_.equal_range(offer.payload);
  const bool known = std::any_of(
      first, last, [&](const auto& one) { return name_of(one.second) == name_of(offer); });
  if (!known) offers_.emplace(offer.payload, offer);
}

}  // namespace thinwire::serve
