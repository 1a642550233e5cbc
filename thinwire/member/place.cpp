#include "thinwire/member/place.h"

#include <algorithm>
#include <utility>

#include "thinwire/membership/ledger.h"

namespace thinwire::member {
namespace {

constexpr uint16_t kPlaceVersion = 1;

void put(ByteWriter& writer, const membership::Position& position) {
  writer.put(position.sequence);
  writer.put_bytes(position.hash.bytes);
}

membership::Position get_position(ByteReader& reader) {
  membership::Position position;
  position.sequence = reader.get<uint64_t>();
  std::ranges::copy(reader.get_bytes(position.hash.bytes.size()), position.hash.bytes.begin());
  return position;
}

}  // namespace

Bytes encode_place(const Place& place) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put(kPlaceVersion);
  writer.put(place.settled);
  put(writer, place.closed);
  writer.put(place.begun);
  put(writer, place.opened);
  return bytes;
}

std::optional<Place> decode_place(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes);
  if (reader.get<uint16_t>() != kPlaceVersion) return std::nullopt;
  Place place;
  place.settled = reader.get<uint64_t>();
  place.closed = get_position(reader);
  place.begun = reader.get<uint64_t>();
  place.opened = get_position(reader);
  if (!reader.at_end()) return std::nullopt;
  return place;
}

Bytes encode_records(const std::map<uint64_t, Bytes>& records) {
  Bytes bytes;
  ByteWriter writer(bytes);
  for (const auto& [sequence, record] : records) {
    writer.put(static_cast<uint32_t>(record.size()));
    writer.put_bytes(record);
  }
  return bytes;
}

std::map<uint64_t, Bytes> decode_records(std::span<const uint8_t> bytes,
                                         const membership::Founding& founding) {
  std::map<uint64_t, Bytes> records;
  ByteReader reader(bytes);
  while (reader.ok() && !reader.at_end()) {
    const auto read = reader.get_bytes(reader.get<uint32_t>());
    Bytes one(read.begin(), read.end());
    const Result<membership::Record> record = membership::decode_record(one);
    if (!record || !membership::is_by_coordinator(one, *record, founding, verify)) break;
    records.emplace(record->sequence, std::move(one));
  }
  return records;
}

std::optional<Place> place_of(const LedgerView& view, const membership::StepPlan& plan,
                              uint64_t steps) {
  Place place;
  place.settled = plan.settled_rounds(steps);
  place.begun = std::max(steps == 0 ? 0 : plan.round_of(steps - 1) + 1, place.settled);
  if (place.settled == 0) return std::nullopt;
  const LedgerRound* settled = view.round(place.settled - 1);
  const LedgerRound* begun = view.round(place.begun - 1);
  if (settled == nullptr || !settled->closing || begun == nullptr) return std::nullopt;
  place.closed = view.position(settled->closed_at);
  place.opened = view.position(begun->opened_at);
  return place;
}

bool continues(const LedgerView& view, const Place& place) {
  if (!view.has(place.closed) || !view.has(place.opened)) return false;
  if (place.closed.sequence < view.state().replayable_from()) return false;
  for (uint64_t number = place.settled; number < place.begun; ++number) {
    const LedgerRound* round = view.round(number);
    if (round == nullptr || round->opened_at > place.opened.sequence) return false;
  }
  return true;
}

}  // namespace thinwire::member
