#include "thinwire/transport/courier/payload_statement.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace thinwire::transport {
namespace {

constexpr std::array<uint8_t, 4> kMagic = {'T', 'W', 'S', 'T'};
constexpr uint16_t kVersion = 1;
constexpr size_t kContentBytes = 4 + 2 + 2 + 8 + 4 + 4 + 8 + 4 + 8 + 32;
constexpr size_t kSignatureBytes = sizeof(Signature::bytes);

auto corrupt(const std::string& what) {
  return fail(FailureKind::kCorruptPayload, "statement about a payload: " + what);
}

}  // namespace

Bytes encode_payload_statement(const PayloadStatement& statement, const Signer& member) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_bytes(kMagic);
  writer.put(kVersion);
  writer.put(uint16_t{0});
  writer.put(statement.operation.run);
  writer.put(statement.operation.epoch);
  writer.put(static_cast<uint32_t>(statement.member));
  writer.put(statement.operation.round);
  writer.put(statement.operation.fragment);
  writer.put(statement.payload.bytes);
  writer.put_bytes(statement.payload.name.bytes);
  const Signature signature = member.sign(bytes);
  writer.put_bytes(signature.bytes);
  return bytes;
}

Result<PayloadStatement> decode_payload_statement(std::span<const uint8_t> bytes,
                                                  const FindKey& find_key, uint64_t max_bytes) {
  if (bytes.size() != kContentBytes + kSignatureBytes) {
    return corrupt(
        fmt::format("it has {} bytes, not {}", bytes.size(), kContentBytes + kSignatureBytes));
  }
  ByteReader reader(bytes);
  const bool magic = std::ranges::equal(reader.get_bytes(kMagic.size()), kMagic);
  const auto version = reader.get<uint16_t>();
  const auto reserved = reader.get<uint16_t>();
  if (!magic || version != kVersion || reserved != 0) {
    return corrupt("it does not begin as one of this version");
  }
  PayloadStatement statement;
  statement.operation.run = reader.get<uint64_t>();
  statement.operation.epoch = reader.get<uint32_t>();
  const auto member = reader.get<uint32_t>();
  statement.operation.round = reader.get<uint64_t>();
  statement.operation.fragment = reader.get<uint32_t>();
  statement.payload.bytes = reader.get<uint64_t>();
  std::ranges::copy(reader.get_bytes(sizeof(Sha256::bytes)), statement.payload.name.bytes.begin());
  Signature signature;
  std::ranges::copy(reader.get_bytes(kSignatureBytes), signature.bytes.begin());
  if (member > static_cast<uint32_t>(std::numeric_limits<int>::max())) {
    return corrupt(fmt::format("there is no member {}", member));
  }
  statement.member = static_cast<int>(member);
  const std::optional<PublicKey> key = find_key(statement.member);
  if (!key) return corrupt(fmt::format("member {} does not take part", member));
  if (!verify(*key, bytes.first(kContentBytes), signature)) {
    return corrupt(fmt::format("it is not signed by member {}", member));
  }
  if (statement.payload.bytes > max_bytes) {
    return fail(FailureKind::kRefused,
                fmt::format("member {} states a payload of {} bytes, at most {} are expected",
                            member, statement.payload.bytes, max_bytes));
  }
  return statement;
}

}  // namespace thinwire::transport
