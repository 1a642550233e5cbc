#include "thinwire/membership/record_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::membership {
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
