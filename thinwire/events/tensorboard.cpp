#include "thinwire/events/tensorboard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"

namespace thinwire::events {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 14;
constexpr double kFlushSeconds = 2;
constexpr std::string_view kFileVersion = "brain.Event:2";

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

Message event_at(int64_t step, double wall_time) {
  Message event;
  event.fixed64(kEventWallTime, wall_time);
  if (step != 0) event.varint(kEventStep, static_cast<uint64_t>(step));
  return event;
}

}  // namespace

// TensorBoard reads the files of a folder in the order of their names.
TensorBoardWriter::TensorBoardWriter(const fs::path& folder, int64_t first_step)
    : last_flush_(monotonic_seconds()) {
  fs::create_directories(folder);
  const auto seconds = static_cast<int64_t>(unix_seconds());
  for (int number = 0; file_ < 0; ++number) {
    path_ = folder / fmt::format("{}{:010}.{:04}", kFileNameStart, seconds, number);
    file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file_ < 0 && errno != EEXIST) {
      throw Error(fmt::format("cannot create {}: {}", path_.string(), std::strerror(errno)));
    }
  }
  Message version = event_at(0, unix_seconds());
  version.bytes(kEventFileVersion, as_bytes(kFileVersion));
  write_record(version.encoded());
  Message log;
  log.varint(kSessionLogStatus, kSessionStart);
  Message start = event_at(first_step, unix_seconds());
  start.bytes(kEventSessionLog, log.encoded());
  write_record(start.encoded());
}

TensorBoardWriter::~TensorBoardWriter() {
  try {
    flush();
  } catch (const Error&) {
    // Only a copy of the run log is lost, and a destructor cannot report it.
    buffer_.clear();
  }
  ::close(file_);
}

void TensorBoardWriter::scalar(std::string_view tag, int64_t step, double value, double wall_time) {
  Message entry;
  entry.bytes(kValueTag, as_bytes(tag));
  entry.fixed32(kValueSimpleValue, static_cast<float>(value));
  Message summary;
  summary.bytes(kSummaryValue, entry.encoded());
  Message event = event_at(step, wall_time);
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

void TensorBoardWriter::sync() {
  flush();
  if (::fsync(file_) == 0) return;
  throw Error(fmt::format("cannot sync {}: {}", path_.string(), std::strerror(errno)));
}

}  // namespace thinwire::events
