#include "thinwire/hosts/enrolment.h"

#include <algorithm>

#include "thinwire/base/signed_message.h"

namespace thinwire::hosts {
namespace {

constexpr MessageFormat kFormat{"TWEN", 1, "an enrolment"};

PublicKey read_key(ByteReader& reader) {
  PublicKey key;
  const auto raw = reader.get_bytes(key.bytes.size());
  std::ranges::copy(raw, key.bytes.begin());
  return key;
}

}  // namespace

Bytes encode_enrolment(const PublicKey& run, const PublicKey& key, const Signer& token) {
  Bytes bytes;
  begin_message(bytes, kFormat);
  ByteWriter writer(bytes);
  writer.put_bytes(token.key().bytes);
  writer.put_bytes(run.bytes);
  writer.put_bytes(key.bytes);
  sign_message(bytes, token);
  return bytes;
}

Result<PublicKey> decode_enrolment(std::span<const uint8_t> bytes, const PublicKey& run,
                                   const PublicKey& key) {
  const Result<SignedMessage> message = open_message(bytes, kFormat);
  if (!message) return tl::unexpected(message.error());
  ByteReader reader(message->content);
  const PublicKey token = read_key(reader);
  const PublicKey its_run = read_key(reader);
  const PublicKey its_key = read_key(reader);
  if (!reader.at_end()) return not_a_message(kFormat, "its parts have wrong lengths");
  if (its_run != run || its_key != key) {
    return not_a_message(kFormat, "it is of another key or for another run");
  }
  if (!verify(token, message->signed_part, message->signature)) {
    return not_a_message(kFormat, "its token has not signed it");
  }
  return token;
}

}  // namespace thinwire::hosts
