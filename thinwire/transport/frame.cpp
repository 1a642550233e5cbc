#include "thinwire/transport/frame.h"

#include <fmt/format.h>

#include <utility>

namespace thinwire::transport {
namespace {

constexpr uint8_t kVersion = 1;
// Bytes after the body, without the operation: sender, receiver, length, kind, version.
constexpr size_t kTrailerBytes = 4 + 4 + 8 + 1 + 1;
constexpr size_t kOperationBytes = 8 + 8 + 4 + 8 + 4;

auto corrupt(const std::string& what) { return fail(FailureKind::kCorruptPayload, what); }

Operation get_operation(ByteReader& reader) {
  Operation operation;
  operation.group = reader.get<uint64_t>();
  operation.key.run = reader.get<uint64_t>();
  operation.key.epoch = reader.get<uint32_t>();
  operation.key.round = reader.get<uint64_t>();
  operation.key.fragment = reader.get<uint32_t>();
  return operation;
}

// Kinds differ in whether they have a body.
Result<void> check_body(FrameKind kind, size_t bytes) {
  const bool silent = kind == FrameKind::kWithdrawal || kind == FrameKind::kLeave;
  const bool gives_reason = kind == FrameKind::kRefusal || kind == FrameKind::kAbort;
  if (silent && bytes != 0) {
    return corrupt(fmt::format("kind {} has no body, but this frame has {} bytes of it",
                               static_cast<int>(kind), bytes));
  }
  if (gives_reason && bytes == 0) {
    return corrupt(
        fmt::format("kind {} needs a reason, but this frame has none", static_cast<int>(kind)));
  }
  return {};
}

}  // namespace

Bytes encode_frame(const FrameHead& head, std::span<const uint8_t> body) {
  Bytes bytes;
  bytes.reserve(body.size() + kOperationBytes + kTrailerBytes);
  ByteWriter writer(bytes);
  writer.put_bytes(body);
  if (names_operation(head.kind)) {
    writer.put(head.operation.group);
    writer.put(head.operation.key.run);
    writer.put(head.operation.key.epoch);
    writer.put(head.operation.key.round);
    writer.put(head.operation.key.fragment);
  }
  writer.put(static_cast<uint32_t>(head.from));
  writer.put(static_cast<uint32_t>(head.to));
  writer.put(uint64_t{body.size()});
  writer.put(static_cast<uint8_t>(head.kind));
  writer.put(kVersion);
  return bytes;
}

Result<Frame> decode_frame(Bytes bytes, int members) {
  if (bytes.size() < kTrailerBytes) {
    return corrupt(fmt::format("{} bytes are too few for a frame", bytes.size()));
  }
  ByteReader trailer(std::span<const uint8_t>(bytes).last(kTrailerBytes));
  const auto from = trailer.get<uint32_t>();
  const auto to = trailer.get<uint32_t>();
  const auto length = trailer.get<uint64_t>();
  const auto kind = trailer.get<uint8_t>();
  const auto version = trailer.get<uint8_t>();
  if (version != kVersion) {
    return corrupt(fmt::format("it is of version {}, this program's is {}", version, kVersion));
  }
  if (kind < static_cast<uint8_t>(FrameKind::kPayload) ||
      kind > static_cast<uint8_t>(FrameKind::kNote)) {
    return corrupt(fmt::format("its kind is {}; known kinds are 1 to 8", kind));
  }
  if (from >= static_cast<uint32_t>(members) || to >= static_cast<uint32_t>(members)) {
    return corrupt(fmt::format("it goes from member {} to {} of {}", from, to, members));
  }
  Frame frame{{static_cast<FrameKind>(kind), static_cast<int>(from), static_cast<int>(to), {}}, {}};
  const size_t behind = kTrailerBytes + (names_operation(frame.head.kind) ? kOperationBytes : 0);
  if (bytes.size() < behind || bytes.size() - behind != length) {
    return corrupt(
        fmt::format("it has {} bytes, but its body alone should have {}", bytes.size(), length));
  }
  if (auto right = check_body(frame.head.kind, length); !right) {
    return tl::unexpected(right.error());
  }
  if (names_operation(frame.head.kind)) {
    ByteReader reader(std::span<const uint8_t>(bytes).subspan(length));
    frame.head.operation = get_operation(reader);
  }
  bytes.resize(length);
  frame.body = std::move(bytes);
  return frame;
}

}  // namespace thinwire::transport
