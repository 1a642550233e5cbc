#include "thinwire/events/tensorboard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/events/crc32c.h"

namespace thinwire::events {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 14;
constexpr double kFlushSeconds = 2;
constexpr std::string_view kFileVersion = "brain.Event:2";

// Protobuf wire types.
enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

// Field numbers of tensorflow.Event and the messages inside it.
constexpr uint32_t kEventWallTime = 1;
constexpr uint32_t kEventStep = 2;
constexpr uint32_t kEventFileVersion = 3;
constexpr uint32_t kEventSummary = 5;
constexpr uint32_t kEventSessionLog = 7;
constexpr uint32_t kSummaryValue = 1;
constexpr uint32_t kValueTag = 1;
constexpr uint32_t kValueSimpleValue = 2;
constexpr uint32_t kSessionLogStatus = 1;
constexpr uint64_t kSessionStart = 1;

class Message {
 public:
  void varint(uint32_t field, uint64_t value) {
    put_varint(field << 3 | kVarint);
    put_varint(value);
  }
  void fixed64(uint32_t field, double value) {
    put_varint(field << 3 | kFixed64);
    ByteWriter(bytes_).put(value);
  }
  void fixed32(uint32_t field, float value) {
    put_varint(field << 3 | kFixed32);
    ByteWriter(bytes_).put(value);
  }
  void bytes(uint32_t field, std::span<const uint8_t> value) {
    put_varint(field << 3 | kLengthDelimited);
    put_varint(value.size());
    ByteWriter(bytes_).put_bytes(value);
  }
  const Bytes& encoded() const { return bytes_; }

 private:
  void put_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<uint8_t>(value | 0x80));
    bytes_.push_back(static_cast<uint8_t>(value));
  }

  Bytes bytes_;
};

Message event_at(int64_t step) {
  Message event;
  event.fixed64(kEventWallTime, unix_seconds());
  if (step != 0) event.varint(kEventStep, static_cast<uint64_t>(step));
  return event;
}

// One field of a message; of the values, the one its wire type has is set.
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

// The next field, or nothing where the message is not well-formed.
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

// Calls visit for every field; false where the message is not well-formed.
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

bool read_event(std::span<const uint8_t> message, TensorBoardFile& file) {
  TensorBoardScalar base;
  std::vector<TensorBoardScalar> scalars;
  const bool well_formed = for_each_field(message, [&](const WireField& field) {
    if (field.number == kEventWallTime) base.wall_time = field.fixed64;
    if (field.number == kEventStep) base.step = static_cast<int64_t>(field.varint);
    if (field.number == kEventFileVersion) file.file_version = to_text(field.bytes);
    if (field.number != kEventSummary) return true;
    return for_each_field(field.bytes, [&](const WireField& value) {
      return value.number != kSummaryValue || read_value(value.bytes, scalars.emplace_back());
    });
  });
  for (TensorBoardScalar& scalar : scalars) {
    scalar.wall_time = base.wall_time;
    scalar.step = base.step;
    file.scalars.push_back(std::move(scalar));
  }
  return well_formed;
}

[[noreturn]] void throw_damaged(const fs::path& file, size_t offset) {
  throw Error(
      fmt::format("{}: the record at byte {} is damaged, or this is not a TensorBoard event file",
                  file.string(), offset));
}

}  // namespace

// TensorBoard reads the files of a folder in the order of their names.
TensorBoardWriter::TensorBoardWriter(const fs::path& folder) : last_flush_(monotonic_seconds()) {
  fs::create_directories(folder);
  const auto seconds = static_cast<int64_t>(unix_seconds());
  for (int number = 0; file_ < 0; ++number) {
    path_ = folder / fmt::format("events.out.tfevents.{:010}.{:04}", seconds, number);
    file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file_ < 0 && errno != EEXIST) {
      throw Error(fmt::format("cannot create {}: {}", path_.string(), std::strerror(errno)));
    }
  }
  Message event = event_at(0);
  event.bytes(kEventFileVersion, as_bytes(kFileVersion));
  write_record(event.encoded());
}

TensorBoardWriter::TensorBoardWriter(const fs::path& folder, int64_t resume_step)
    : TensorBoardWriter(folder) {
  Message log;
  log.varint(kSessionLogStatus, kSessionStart);
  Message event = event_at(resume_step + 1);
  event.bytes(kEventSessionLog, log.encoded());
  write_record(event.encoded());
}

TensorBoardWriter::~TensorBoardWriter() {
  try {
    flush();
  } catch (const Error&) {
    // What is lost is a copy of the run log; a destructor has nobody to tell.
    buffer_.clear();
  }
  ::close(file_);
}

void TensorBoardWriter::scalar(std::string_view tag, int64_t step, double value) {
  Message entry;
  entry.bytes(kValueTag, as_bytes(tag));
  entry.fixed32(kValueSimpleValue, static_cast<float>(value));
  Message summary;
  summary.bytes(kSummaryValue, entry.encoded());
  Message event = event_at(step);
  event.bytes(kEventSummary, summary.encoded());
  write_record(event.encoded());
}

void TensorBoardWriter::write_record(const Bytes& event) {
  Bytes length;
  ByteWriter(length).put(uint64_t{event.size()});
  ByteWriter out(buffer_);
  out.put_bytes(length);
  out.put(masked_crc32c(length));
  out.put_bytes(event);
  out.put(masked_crc32c(event));
  const bool overdue = monotonic_seconds() - last_flush_ > kFlushSeconds;
  if (overdue || buffer_.size() > kBufferBytes) flush();
}

void TensorBoardWriter::flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t written = ::write(file_, buffer_.data() + done, buffer_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(done));
      throw Error(fmt::format("cannot write {}: {}", path_.string(), std::strerror(error)));
    }
    done += static_cast<size_t>(written);
  }
  buffer_.clear();
  last_flush_ = monotonic_seconds();
}

TensorBoardFile read_tensorboard(const fs::path& file) {
  const MappedFile mapped(file);
  ByteReader in(mapped.bytes());
  TensorBoardFile result;
  while (in.remaining() > 0) {
    const size_t offset = mapped.bytes().size() - in.remaining();
    const auto length = in.get_bytes(sizeof(uint64_t));
    const auto length_crc = in.get<uint32_t>();
    if (in.ok() && masked_crc32c(length) != length_crc) throw_damaged(file, offset);
    const auto event = in.get_bytes(ByteReader(length).get<uint64_t>());
    const auto crc = in.get<uint32_t>();
    result.torn = !in.ok();
    if (result.torn) break;
    if (masked_crc32c(event) != crc || !read_event(event, result)) throw_damaged(file, offset);
  }
  return result;
}

}  // namespace thinwire::events
