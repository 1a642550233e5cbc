#include "thinwire/base/signed_message.h"

#include <fmt/format.h>

#include <algorithm>

namespace thinwire {

void begin_message(Bytes& bytes, const MessageFormat& format) {
  ByteWriter writer(bytes);
  writer.put_bytes(as_bytes(format.magic));
  writer.put(format.version);
}

void sign_message(Bytes& bytes, const Signer& signer) {
  const Signature signature = signer.sign(bytes);
  ByteWriter(bytes).put_bytes(signature.bytes);
}

Result<SignedMessage> open_message(std::span<const uint8_t> bytes, const MessageFormat& format) {
  SignedMessage message;
  const size_t head = format.magic.size() + sizeof(format.version);
  const size_t tail = message.signature.bytes.size();
  if (bytes.size() < head + tail) return not_a_message(format, "it is truncated");
  ByteReader reader(bytes);
  if (!std::ranges::equal(reader.get_bytes(format.magic.size()), as_bytes(format.magic))) {
    return not_a_message(format, fmt::format("it does not begin with {}", format.magic));
  }
  const auto version = reader.get<uint16_t>();
  if (version != format.version) {
    return not_a_message(
        format, fmt::format("it is of version {}, this program's is {}", version, format.version));
  }
  message.signed_part = bytes.first(bytes.size() - tail);
  message.content = message.signed_part.subspan(head);
  std::ranges::copy(bytes.last(tail), message.signature.bytes.begin());
  return message;
}

tl::unexpected<Failure> not_a_message(const MessageFormat& format, std::string_view why) {
  return fail(FailureKind::kCorruptPayload, fmt::format("not {}: {}", format.name, why));
}

}  // namespace thinwire
