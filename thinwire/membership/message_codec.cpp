#include "thinwire/membership/message_codec.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string_view>
#include <type_traits>

#include "thinwire/base/clock.h"
#include "thinwire/base/signature.h"
#include "thinwire/membership/field_io.h"

namespace thinwire::membership {
namespace {

constexpr MessageFormat kFormat{"TWMS", 1, "a statement"};

// Values of at least 0, as speeds and durations are.
template <typename Io>
void amount_field(Io& io, double& value) {
  io.field(value);
  io.require(std::isfinite(value) && value >= 0, "an amount is not a number of at least 0");
}

template <typename Io>
void fields(Io& io, Position& position) {
  io.field(position.sequence);
  io.field(position.hash.bytes);
}

// Text and bytes are lists of bytes.
template <typename Io>
void bytes_field(Io& io, Bytes& bytes) {
  io.count(bytes, 1);
  io.bytes(bytes);
}
template <typename Io>
void text_field(Io& io, std::string& text) {
  Bytes bytes(text.begin(), text.end());
  bytes_field(io, bytes);
  text.assign(bytes.begin(), bytes.end());
}

template <typename Io>
void fields(Io& io, JoinRequest& join) {
  io.field(join.key.bytes);
  if (io.present(join.position)) fields(io, *join.position);
  amount_field(io, join.down_bytes_s);
  io.field(join.own_rows);
}

template <typename Io>
void fields(Io& io, Report& report) {
  member_field(io, report.member);
  if (io.present(report.position)) fields(io, *report.position);
  if (io.present(report.digest)) fields(io, *report.digest);
}

template <typename Io>
void fields(Io& io, Offer& offer) {
  member_field(io, offer.member);
  io.field(offer.round);
  io.field(offer.epoch);
  io.field(offer.fragment);
  io.field(offer.payload.bytes);
  io.field(offer.bytes);
  amount_field(io, offer.spent.seconds);
  amount_field(io, offer.spent.joules);
  amount_field(io, offer.spent.grams);
}

template <typename Io>
void fields(Io& io, Announcement& announcement) {
  fields(io, announcement.offer);
}

template <typename Io>
void fields(Io& io, LeaveNotice& notice) {
  member_field(io, notice.member);
}

template <typename Io>
void fields(Io& io, SnapshotReady& ready) {
  fields(io, ready.snapshot);
  fields(io, ready.digest);
  io.field(ready.record.bytes);
}

template <typename Io>
void fields(Io& io, Supply& supply) {
  member_field(io, supply.member);
  io.count(supply.messages, sizeof(uint32_t));
  for (Bytes& message : supply.messages) bytes_field(io, message);
}

template <typename Io>
void fields(Io& io, Misconduct& misconduct) {
  member_field(io, misconduct.member);
  text_field(io, misconduct.what);
}

template <typename Io>
void fields(Io& io, AskRecords& ask) {
  member_field(io, ask.member);
  io.field(ask.first);
}

template <typename Io>
void fields(Io& io, AskSnapshot& ask) {
  member_field(io, ask.member);
}

template <typename Io>
void fields(Io& io, Refuse& refuse) {
  io.field(refuse.key.bytes);
  text_field(io, refuse.why);
}

template <typename Io>
void fields(Io& io, Lacking& lacking) {
  io.field(lacking.payload.bytes);
}

template <typename Io>
void fields(Io& io, Loss& loss) {
  member_field(io, loss.member);
  io.field(loss.step);
  text_field(io, loss.set);
  io.field(loss.sum);
  io.require(std::isfinite(loss.sum), "a loss is not finite");
  io.field(loss.tokens);
}

template <typename Io>
void fields(Io& io, Sum& sum) {
  io.field(sum.round);
  io.field(sum.fragment);
  io.field(sum.contributions.bytes);
  auto format = static_cast<uint8_t>(sum.format);
  io.field(format);
  io.require(format < kWireNames.size(), "a number format is unknown");
  if (io.ok()) sum.format = static_cast<WireType>(format);
  io.field(sum.factor);
  io.require(std::isfinite(sum.factor) && sum.factor > 0, "a factor is not a number above 0");
  io.field(sum.payload.bytes);
  io.field(sum.bytes);
}

template <typename Io>
void fields(Io& io, Audit& audit) {
  member_field(io, audit.member);
  io.field(audit.round);
  io.field(audit.fragment);
  io.field(audit.effect);
  io.require(std::isfinite(audit.effect), "an effect is not a number");
  if (io.present(audit.error)) amount_field(io, *audit.error);
}

template <typename Io>
void fields(Io& io, Overtaken& overtaken) {
  bytes_field(io, overtaken.later);
}

template <typename Io>
void fields(Io& io, Waiting& waiting) {
  text_field(io, waiting.text);
}

template <typename Io>
void fields(Io& io, Statement& statement) {
  io.field(statement.run);
  io.field(statement.author.bytes);
  io.field(statement.number);
  kind_field(io, statement.message, "it is of an unknown kind");
  if (io.ok()) std::visit([&io](auto& one) { fields(io, one); }, statement.message);
}

}  // namespace

Bytes encode_statement(const Statement& statement, const Signer& signer) {
  assert(signer.key() == statement.author);
  Bytes bytes;
  begin_message(bytes, kFormat);
  Statement copy = statement;
  FieldWriter io(bytes);
  fields(io, copy);
  sign_message(bytes, signer);
  return bytes;
}

Result<Statement> decode_statement(std::span<const uint8_t> bytes, uint64_t run, Verify verify) {
  const Result<SignedMessage> message = open_message(bytes, kFormat);
  if (!message) return tl::unexpected(message.error());
  Statement statement;
  FieldReader io(message->content);
  fields(io, statement);
  if (!io.problem().empty()) return not_a_message(kFormat, io.problem());
  if (!verify(statement.author, message->signed_part, message->signature)) {
    return not_a_message(kFormat, "its author did not sign it");
  }
  if (statement.run != run) return fail(FailureKind::kStaleRound, "a statement of another run");
  return statement;
}

bool is_from_coordinator(const Message& message) {
  return std::holds_alternative<Misconduct>(message) ||
         std::holds_alternative<AskRecords>(message) ||
         std::holds_alternative<AskSnapshot>(message) || std::holds_alternative<Refuse>(message) ||
         std::holds_alternative<Sum>(message) || std::holds_alternative<Waiting>(message);
}

int sender(const Message& message) {
  return std::visit(
      [](const auto& one) {
        using Kind = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<Kind, SnapshotReady>) {
          return one.snapshot.member;
        } else if constexpr (std::is_same_v<Kind, Announcement>) {
          return one.offer.member;
        } else if constexpr (std::is_same_v<Kind, Report> || std::is_same_v<Kind, Offer> ||
                             std::is_same_v<Kind, LeaveNotice> || std::is_same_v<Kind, Supply> ||
                             std::is_same_v<Kind, Loss>) {
          return one.member;
        } else {
          return -1;
        }
      },
      message);
}

uint64_t StatementNumbers::next() {
  last_ = following();
  return last_;
}

uint64_t StatementNumbers::following() const {
  return std::max(last_ + 1, static_cast<uint64_t>(unix_seconds() * 1e6));
}

bool StatementNumbers::go_on_from(uint64_t number) {
  const bool is_news = number >= following();
  last_ = std::max(last_, number);
  return is_news;
}

bool ReplayWindow::is_new(const PublicKey& author, uint64_t number,
                          std::span<const uint8_t> bytes) {
  const auto [entry, first] = authors_.try_emplace(author, Received{number, 1, {}});
  Received& received = entry->second;
  if (first || number > received.newest) {
    const uint64_t ahead = number - received.newest;
    received.bits = (ahead < kWidth ? received.bits << ahead : 0) | 1;
    received.newest = number;
    if (bytes.size() <= kMaxKept) received.kept.assign(bytes.begin(), bytes.end());
    return true;
  }
  const uint64_t behind = received.newest - number;
  if (behind >= kWidth || (received.bits >> behind & 1) != 0) return false;
  received.bits |= uint64_t{1} << behind;
  return true;
}

std::optional<Overtaken> ReplayWindow::overtaken(const PublicKey& author, uint64_t number) const {
  const auto entry = authors_.find(author);
  if (entry == authors_.end() || entry->second.kept.empty()) return std::nullopt;
  const uint64_t newest = entry->second.newest;
  if (number > newest || newest - number < kClockAhead) return std::nullopt;
  return Overtaken{entry->second.kept};
}

bool ReplayWindow::is_ahead(const PublicKey& author, double unix_time) const {
  const auto entry = authors_.find(author);
  return entry != authors_.end() &&
         static_cast<double>(entry->second.newest) >= unix_time * 1e6 + double{kClockAhead};
}

}  // namespace thinwire::membership
