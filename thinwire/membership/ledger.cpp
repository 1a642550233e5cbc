#include "thinwire/membership/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
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
void fields(Io& io, Evaluation& evaluation) {
  io.field(evaluation.step);
  if (io.present(evaluation.loss)) {
    io.field(*evaluation.loss);
    io.require(std::isfinite(*evaluation.loss), "a loss is not finite");
  }
  io.flag(evaluation.ends);
  io.require(!evaluation.ends || evaluation.loss, "a run ends by an evaluation without a loss");
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

namespace {

constexpr std::string_view kMagic = "TWLP";
constexpr uint16_t kVersion = 1;
constexpr size_t kHeadBytes = 4 + 2 + 32 + 8 + 4;
constexpr size_t kContentBytes = kMaxRecordMessage - kHeadBytes;

constexpr size_t parts_of(uint64_t bytes) { return (bytes - 1) / kContentBytes + 1; }

size_t content_bytes(uint64_t record_bytes, uint32_t part) {
  return std::min<uint64_t>(kContentBytes, record_bytes - uint64_t{part} * kContentBytes);
}

struct Part {
  Sha256 record;
  uint64_t bytes = 0;  // of the record
  uint32_t number = 0;
  std::span<const uint8_t> content;
};

bool is_part(std::span<const uint8_t> message) {
  return message.size() >= kMagic.size() &&
         std::ranges::equal(message.first(kMagic.size()), as_bytes(kMagic));
}

// Nothing if no record has a part like this.
std::optional<Part> read_part(std::span<const uint8_t> message) {
  ByteReader reader(message.subspan(kMagic.size()));
  Part part;
  const auto version = reader.get<uint16_t>();
  part.record = reader.get<Sha256>();
  part.bytes = reader.get<uint64_t>();
  part.number = reader.get<uint32_t>();
  if (!reader.ok() || version != kVersion) return std::nullopt;
  if (part.bytes <= kMaxRecordMessage || part.bytes > kMaxRecordBytes) return std::nullopt;
  if (part.number >= parts_of(part.bytes)) return std::nullopt;
  if (reader.remaining() != content_bytes(part.bytes, part.number)) return std::nullopt;
  part.content = reader.get_bytes(reader.remaining());
  return part;
}

}  // namespace

std::vector<Bytes> messages_of(const Bytes& record) {
  if (record.size() <= kMaxRecordMessage) return {record};
  if (record.size() > kMaxRecordBytes) {
    throw Error(fmt::format("a record has {} bytes, at most {} can be written", record.size(),
                            kMaxRecordBytes));
  }
  const Sha256 name = sha256(record);
  std::vector<Bytes> messages(parts_of(record.size()));
  for (uint32_t number = 0; number < messages.size(); ++number) {
    ByteWriter writer(messages[number]);
    writer.put_bytes(as_bytes(kMagic));
    writer.put(kVersion);
    writer.put_bytes(name.bytes);
    writer.put(uint64_t{record.size()});
    writer.put(number);
    writer.put_bytes(std::span(record).subspan(uint64_t{number} * kContentBytes,
                                               content_bytes(record.size(), number)));
  }
  return messages;
}

std::optional<Bytes> RecordJoiner::take(Bytes message) {
  if (!is_part(message)) {
    *this = {};
    return message;
  }
  const std::optional<Part> part = read_part(message);
  if (!part) return std::nullopt;
  if (part->record != record_ || part->bytes != bytes_) {
    record_ = part->record;
    bytes_ = part->bytes;
    parts_.assign(parts_of(bytes_), std::nullopt);
  }
  parts_[part->number].emplace(part->content.begin(), part->content.end());
  if (held(record_) < parts_.size()) return std::nullopt;
  Bytes record;
  record.reserve(bytes_);
  for (const auto& one : parts_) record.insert(record.end(), one->begin(), one->end());
  const Sha256 said = record_;
  *this = {};
  return sha256(record) == said ? std::optional(std::move(record)) : std::nullopt;
}

size_t RecordJoiner::held(const Sha256& record) const {
  if (bytes_ == 0 || record != record_) return 0;
  const auto missing = std::ranges::find_if(parts_, [](const auto& one) { return !one; });
  return static_cast<size_t>(missing - parts_.begin());
}

}  // namespace thinwire::membership
