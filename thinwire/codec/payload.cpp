#include "thinwire/codec/payload.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "thinwire/base/digest.h"

namespace thinwire::codec {
namespace {

constexpr std::array<uint8_t, 4> kMagic = {'T', 'W', 'P', 'L'};
constexpr uint16_t kVersion = 2;
constexpr size_t kChecksumAt = 32;  // covers the header before it and everything after it

uint64_t checksum(std::span<const uint8_t> payload) {
  return hash_bytes(payload.subspan(kPayloadHeaderBytes), hash_bytes(payload.first(kChecksumAt)));
}

auto corrupt(const PayloadId& expected, std::string_view what) {
  return fail(FailureKind::kCorruptPayload, fmt::format("payload of member {} in round {}: {}",
                                                        expected.sender, expected.round, what));
}

}  // namespace

void begin_payload(const PayloadId& id, Bytes& out) {
  out.clear();
  ByteWriter writer(out);
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put(id.method);
  writer.put(id.run);
  writer.put(id.epoch);
  writer.put(id.sender);
  writer.put(id.round);
  writer.put(uint64_t{0});
}

void seal_payload(Bytes& payload) {
  const uint64_t sum = checksum(payload);
  std::memcpy(payload.data() + kChecksumAt, &sum, sizeof(sum));
}

Result<std::span<const uint8_t>> open_payload(std::span<const uint8_t> payload,
                                              const PayloadId& expected, bool late) {
  ByteReader reader(payload);
  const auto magic = reader.get_bytes(kMagic.size());
  const auto version = reader.get<uint16_t>();
  const auto method = reader.get<uint16_t>();
  const auto run = reader.get<uint64_t>();
  const auto epoch = reader.get<uint32_t>();
  const auto sender = reader.get<uint32_t>();
  const auto round = reader.get<uint64_t>();
  const auto sum = reader.get<uint64_t>();
  if (!reader.ok()) return corrupt(expected, "shorter than a header");
  if (!std::equal(magic.begin(), magic.end(), kMagic.begin())) {
    return corrupt(expected, "it does not begin like a payload");
  }
  if (version != kVersion) {
    return corrupt(expected, fmt::format("version {}, this program reads {}", version, kVersion));
  }
  if (sum != checksum(payload)) return corrupt(expected, "its checksum does not match");
  if (method != static_cast<uint16_t>(expected.method)) {
    return corrupt(expected, fmt::format("it is of method {}, not {}", method,
                                         static_cast<uint16_t>(expected.method)));
  }
  if (sender != expected.sender) {
    return corrupt(expected, fmt::format("it says that member {} sent it", sender));
  }
  const bool fits =
      late ? round < expected.round : epoch == expected.epoch && round == expected.round;
  if (run != expected.run || !fits) {
    return fail(
        FailureKind::kStaleRound,
        fmt::format("payload of member {} is for run {:x} epoch {} round {}, not run {:x} "
                    "epoch {} round {}",
                    sender, run, epoch, round, expected.run, expected.epoch, expected.round));
  }
  return payload.subspan(kPayloadHeaderBytes);
}

}  // namespace thinwire::codec
