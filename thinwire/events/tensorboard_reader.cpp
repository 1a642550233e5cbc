#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/events/tensorboard.h"

namespace thinwire::events {
namespace {

// One field of a message; only the value of its wire type is set.
struct WireField {
  uint64_t number = 0;
  uint64_t varint = 0;
  double fixed64 = 0;
  float fixed32 = 0;
  std::span<const uint8_t> bytes;
};

std::optional<uint64_t> read_varint(ByteReader& in) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = in.get<uint8_t>();
    if (!in.ok()) return std::nullopt;
    value |= uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// The next field, or nullopt if the message is not well-formed.
std::optional<WireField> read_field(ByteReader& in) {
  const auto key = read_varint(in);
  if (!key) return std::nullopt;
  WireField field;
  field.number = *key >> 3;
  switch (*key & 7) {
    case kVarint: {
      const auto value = read_varint(in);
      if (!value) return std::nullopt;
      field.varint = *value;
      break;
    }
    case kFixed64:
      field.fixed64 = in.get<double>();
      break;
    case kFixed32:
      field.fixed32 = in.get<float>();
      break;
    case kLengthDelimited: {
      const auto size = read_varint(in);
      if (!size) return std::nullopt;
      field.bytes = in.get_bytes(*size);
      break;
    }
    default:
      return std::nullopt;
  }
  if (!in.ok()) return std::nullopt;
  return field;
}

std::string to_text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Calls visit for every field; false if the message is not well-formed.
template <typename Visit>
bool for_each_field(std::span<const uint8_t> message, Visit&& visit) {
  ByteReader in(message);
  while (!in.at_end()) {
    const auto field = read_field(in);
    if (!field || !visit(*field)) return false;
  }
  return true;
}

bool read_value(std::span<const uint8_t> message, TensorBoardScalar& scalar) {
  return for_each_field(message, [&](const WireField& field) {
    if (field.number == kValueTag) scalar.tag = to_text(field.bytes);
    if (field.number == kValueSimpleValue) scalar.value = field.fixed32;
    return true;
  });
}

bool is_session_start(std::span<const uint8_t> message) {
  bool start = false;
  return for_each_field(message,
                        [&](const WireField& field) {
                          start |=
                              field.number == kSessionLogStatus && field.varint == kSessionStart;
                          return true;
                        }) &&
         start;
}

void forget_from(int64_t step, TensorBoardFile& file) {
  std::erase_if(file.scalars, [&](const auto& scalar) { return scalar.step >= step; });
  file.forgets_from = std::min(file.forgets_from.value_or(step), step);
}

bool read_event(std::span<const uint8_t> message, TensorBoardFile& file) {
  TensorBoardScalar base;
  std::vector<TensorBoardScalar> scalars;
  bool starts = false;
  const bool well_formed = for_each_field(message, [&](const WireField& field) {
    if (field.number == kEventWallTime) base.wall_time = field.fixed64;
    if (field.number == kEventStep) base.step = static_cast<int64_t>(field.varint);
    if (field.number == kEventFileVersion) file.file_version = to_text(field.bytes);
    if (field.number == kEventSessionLog) starts = is_session_start(field.bytes);
    if (field.number != kEventSummary) return true;
    return for_each_field(field.bytes, [&](const WireField& value) {
      return value.number != kSummaryValue || read_value(value.bytes, scalars.emplace_back());
    });
  });
  if (starts) forget_from(base.step, file);
  for (TensorBoardScalar& scalar : scalars) {
    scalar.wall_time = base.wall_time;
    scalar.step = base.step;
    file.scalars.push_back(std::move(scalar));
  }
  return well_formed;
}

// Reads up to the end, or to an incomplete or damaged record; returns the offset of a damaged one.
std::optional<size_t> read_records(std::span<const uint8_t> bytes, TensorBoardFile& file) {
  ByteReader in(bytes);
  while (in.remaining() > 0) {
    const size_t offset = bytes.size() - in.remaining();
    const auto length = in.get_bytes(sizeof(uint64_t));
    const auto length_crc = in.get<uint32_t>();
    if (in.ok() && masked_crc32c(length) != length_crc) return offset;
    const auto event = in.get_bytes(ByteReader(length).get<uint64_t>());
    const auto crc = in.get<uint32_t>();
    file.torn = !in.ok();
    if (file.torn) break;
    if (masked_crc32c(event) != crc || !read_event(event, file)) return offset;
  }
  return std::nullopt;
}

// In the order in which TensorBoard reads them.
std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kFileNameStart)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

TensorBoardFile read_tensorboard(const fs::path& file) {
  const MappedFile mapped(file);
  TensorBoardFile result;
  const std::optional<size_t> damaged = read_records(mapped.bytes(), result);
  if (!damaged) return result;
  throw Error(
      fmt::format("{}: the record at byte {} is damaged, or this is not a TensorBoard event file",
                  file.string(), *damaged));
}

TensorBoardSteps tensorboard_steps(const fs::path& folder) {
  TensorBoardSteps steps;
  for (const fs::path& path : event_files(folder)) {
    const MappedFile mapped(path);
    TensorBoardFile file;
    read_records(mapped.bytes(), file);  // TensorBoard does not read past damage either
    if (file.forgets_from) {
      for (auto& [tag, known] : steps) {
        std::erase_if(known, [&](int64_t step) { return step >= *file.forgets_from; });
      }
    }
    for (const TensorBoardScalar& scalar : file.scalars) steps[scalar.tag].push_back(scalar.step);
  }
  return steps;
}

}  // namespace thinwire::events
