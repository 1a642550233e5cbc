#include "thinwire/membership/ledger.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <type_traits>
#include <utility>

namespace thinwire::membership {
namespace {

constexpr std::string_view kMagic = "TWLR";
constexpr uint16_t kVersion = 1;
constexpr size_t kSignatureBytes = sizeof(Signature::bytes);
// By Change's index, plus 1.
constexpr size_t kKinds = std::variant_size_v<Change>;

// --- one description of every field, for both directions

// `Io` has field(T&) for numbers and arrays, flag(bool&), present(optional&), count(items, bytes an
// item takes at least), and require(bool, what).
template <typename Io>
void fields(Io& io, OperationKey& key) {
  io.field(key.run);
  io.field(key.epoch);
  io.field(key.round);
  io.field(key.fragment);
}

template <typename Io>
void member_field(Io& io, int& member) {
  io.field(member);
  io.require(member >= 0, "a member's id is below 0");
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
void fields(Io& io, Snapshot& snapshot) {
  member_field(io, snapshot.member);
  io.field(snapshot.sequence);
  io.field(snapshot.content.bytes);
  io.field(snapshot.bytes);
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
}

template <typename Io>
void fields(Io& io, AgreedDigest& agreed) {
  io.field(agreed.round);
  io.field(agreed.digest);
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

// Default-made alternatives of a variant, by index.
template <size_t... kIndex>
Change empty_change(size_t index, std::index_sequence<kIndex...>) {
  Change change;
  ((index == kIndex ? void(change.emplace<kIndex>()) : void()), ...);
  return change;
}

template <typename Io>
void fields(Io& io, Change& change) {
  auto kind = static_cast<uint8_t>(change.index() + 1);
  io.field(kind);
  io.require(kind >= 1 && kind <= kKinds, "a change is of an unknown kind");
  if (!io.ok()) return;
  if (change.index() + 1 != kind) {
    change = empty_change(kind - 1u, std::make_index_sequence<kKinds>());
  }
  std::visit([&io](auto& one) { fields(io, one); }, change);
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

// --- the directions

class Writing {
 public:
  explicit Writing(Bytes& out) : writer_(out) {}

  template <typename T>
  void field(T& value) {
    writer_.put(value);
  }
  void flag(bool value) { writer_.put(static_cast<uint8_t>(value ? 1 : 0)); }
  template <typename T>
  bool present(const std::optional<T>& value) {
    flag(value.has_value());
    return value.has_value();
  }
  template <typename T>
  void count(std::vector<T>& items, size_t /*least_bytes*/) {
    writer_.put(static_cast<uint32_t>(items.size()));
  }
  void require([[maybe_unused]] bool holds, std::string_view /*what*/) { assert(holds); }
  bool ok() const { return true; }

 private:
  ByteWriter writer_;
};

class Reading {
 public:
  explicit Reading(std::span<const uint8_t> in) : reader_(in) {}

  template <typename T>
  void field(T& value) {
    value = reader_.get<T>();
  }
  void flag(bool& value) {
    const auto byte = reader_.get<uint8_t>();
    require(byte <= 1, "a yes or no is neither");
    value = byte == 1;
  }
  template <typename T>
  bool present(std::optional<T>& value) {
    bool has = false;
    flag(has);
    if (has) value.emplace();
    return has;
  }
  // Never more items than the bytes that are left can hold.
  template <typename T>
  void count(std::vector<T>& items, size_t least_bytes) {
    const auto size = reader_.get<uint32_t>();
    require(size <= reader_.remaining() / least_bytes, "a list is longer than the record");
    items.clear();
    if (ok()) items.resize(size);
  }
  void require(bool holds, std::string_view what) {
    if (!holds && problem_.empty()) problem_ = what;
  }
  bool ok() const { return problem_.empty() && reader_.ok(); }
  std::string_view problem() const {
    if (!problem_.empty()) return problem_;
    return reader_.at_end() ? "" : reader_.ok() ? "bytes follow its end" : "it is cut off";
  }

 private:
  ByteReader reader_;
  std::string_view problem_;
};

auto corrupt(std::string_view what) {
  return fail(FailureKind::kCorruptPayload, fmt::format("not a ledger record: {}", what));
}

}  // namespace

Bytes encode_record(const Record& record, const Signer& signer) {
  assert(signer.key() == record.writer);
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_bytes(as_bytes(kMagic));
  writer.put(kVersion);
  Record copy = record;
  Writing io(bytes);
  fields(io, copy);
  const Signature signature = signer.sign(bytes);
  writer.put_bytes(signature.bytes);
  return bytes;
}

Result<Record> decode_record(std::span<const uint8_t> bytes) {
  constexpr size_t kHead = kMagic.size() + sizeof(kVersion);
  if (bytes.size() < kHead + kSignatureBytes) return corrupt("it is cut off");
  ByteReader head(bytes.first(kHead));
  const auto magic = head.get_bytes(kMagic.size());
  if (!std::ranges::equal(magic, as_bytes(kMagic))) return corrupt("it does not begin with TWLR");
  const auto version = head.get<uint16_t>();
  if (version != kVersion) {
    return corrupt(fmt::format("it is of version {}, this program's is {}", version, kVersion));
  }
  Record record;
  Reading io(bytes.subspan(kHead, bytes.size() - kHead - kSignatureBytes));
  fields(io, record);
  if (!io.problem().empty()) return corrupt(io.problem());
  return record;
}

bool is_authentic(std::span<const uint8_t> bytes, const Record& record, Verify verify) {
  Signature signature;
  const auto last = bytes.last(kSignatureBytes);
  std::ranges::copy(last, signature.bytes.begin());
  return verify(record.writer, bytes.first(bytes.size() - kSignatureBytes), signature);
}

Sha256 record_hash(std::span<const uint8_t> bytes) { return sha256(bytes); }

}  // namespace thinwire::membership
