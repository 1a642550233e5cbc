#include "thinwire/membership/ledger.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <variant>

#include "thinwire/base/signed_message.h"
#include "thinwire/membership/field_io.h"

namespace thinwire::membership {
namespace {

constexpr MessageFormat kFormat{"TWLR", 2, "a ledger record"};

template <typename Io>
void fields(Io& io, OperationKey& key) {
  io.field(key.run);
  io.field(key.epoch);
  io.field(key.round);
  io.field(key.fragment);
}

template <typename Io>
void fields(Io& io, Founding& founding) {
  io.field(founding.run);
  io.field(founding.recipe.bytes);
  io.field(founding.weights.bytes);
  io.field(founding.weights_bytes);
  io.count(founding.coordinators, sizeof(PublicKey));
  for (PublicKey& key : founding.coordinators) io.field(key.bytes);
}

template <typename Io>
void fields(Io& io, Admission& admission) {
  member_field(io, admission.member);
  io.field(admission.key.bytes);
}

template <typename Io>
void fields(Io& io, PhaseChange& change) {
  member_field(io, change.member);
  io.field(change.phase);
  io.require(change.phase <= Phase::kExcluded, "a phase is unknown");
  if (io.present(change.snapshot)) io.field(*change.snapshot);
  io.require(!change.snapshot || change.phase == Phase::kCatchingUp,
             "a snapshot is named for a member that does not catch up");
}

template <typename Io>
void fields(Io& io, Speed& speed) {
  member_field(io, speed.member);
  io.field(speed.rows_per_second);
  io.require(std::isfinite(speed.rows_per_second) && speed.rows_per_second > 0,
             "a speed is not a number above 0");
}

template <typename Io>
void fields(Io& io, Offence& offence) {
  member_field(io, offence.member);
  io.field(offence.kind);
  io.require(offence.kind <= OffenceKind::kConduct, "an offence is of an unknown kind");
}

template <typename Io>
void fields(Io& io, Commit& commit) {
  fields(io, commit.operation);
  io.count(commit.contributions, 4 + 8 + 32 + 8 + 8);
  for (Contribution& one : commit.contributions) {
    member_field(io, one.member);
    io.field(one.round);
    io.field(one.payload.bytes);
    io.field(one.bytes);
    io.field(one.weight);
  }
  io.field(commit.scale);
  io.require(std::isfinite(commit.scale), "a scale is not finite");
}

template <typename Io>
void fields(Io& io, Closing& closing) {
  io.field(closing.round);
  io.count(closing.commits, 24 + 4 + 4);
  for (Commit& commit : closing.commits) fields(io, commit);
  io.count(closing.missing, 4);
  for (int& member : closing.missing) member_field(io, member);
}

template <typename Io>
void fields(Io& io, Opening& opening) {
  io.field(opening.round);
  io.field(opening.epoch);
  io.field(opening.first_step);
  io.flag(opening.last);
  io.count(opening.steps, 8);
  for (StepRates& step : opening.steps) {
    io.field(step.learning_rate);
    io.field(step.round_rate);
    io.require(std::isfinite(step.learning_rate) && std::isfinite(step.round_rate),
               "a learning rate is not finite");
  }
  io.count(opening.operations, 12);
  for (PlannedOperation& operation : opening.operations) {
    io.field(operation.fragment);
    io.field(operation.max_bytes);
  }
  io.count(opening.roster, 4 + 8 + 8 + 8);
  for (Share& share : opening.roster) {
    member_field(io, share.member);
    io.field(share.rows.first);
    io.field(share.rows.count);
    io.field(share.since);
  }
}

template <typename Io>
void fields(Io& io, Change& change) {
  kind_field(io, change, "a change is of an unknown kind");
  if (io.ok()) std::visit([&io](auto& one) { fields(io, one); }, change);
}

template <typename Io>
void fields(Io& io, Record& record) {
  io.field(record.sequence);
  io.field(record.previous.bytes);
  io.field(record.writer.bytes);
  io.count(record.changes, 5);
  for (Change& change : record.changes) fields(io, change);
  if (io.present(record.closing)) fields(io, *record.closing);
  io.count(record.openings, 8 + 4 + 8 + 1 + 4 + 4 + 4);
  for (Opening& opening : record.openings) fields(io, opening);
}

}  // namespace

Bytes encode_record(const Record& record, const Signer& signer) {
  assert(signer.key() == record.writer);
  Bytes bytes;
  begin_message(bytes, kFormat);
  Record copy = record;
  FieldWriter io(bytes);
  fields(io, copy);
  sign_message(bytes, signer);
  return bytes;
}

Result<Record> decode_record(std::span<const uint8_t> bytes) {
  const Result<SignedMessage> message = open_message(bytes, kFormat);
  if (!message) return tl::unexpected(message.error());
  Record record;
  FieldReader io(message->content);
  fields(io, record);
  if (!io.problem().empty()) return not_a_message(kFormat, io.problem());
  return record;
}

bool is_authentic(std::span<const uint8_t> bytes, const Record& record, Verify verify) {
  const Result<SignedMessage> message = open_message(bytes, kFormat);
  return message && verify(record.writer, message->signed_part, message->signature);
}

bool is_by_coordinator(std::span<const uint8_t> bytes, const Record& record,
                       const Founding& founding, Verify verify) {
  return std::ranges::binary_search(founding.coordinators, record.writer) &&
         is_authentic(bytes, record, verify);
}

Sha256 record_hash(std::span<const uint8_t> bytes) { return sha256(bytes); }

}  // namespace thinwire::membership
