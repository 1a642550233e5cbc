// libFuzzer target of what comes from other hosts beside the ledger (preset fuzz): join tokens,
// keys, answers and notices of the server, chunks of blobs, and files of mailboxes. The first byte
// says which.
#include <memory>
#include <string>

#include "target.h"
#include "thinwire/base/nkey.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/mailbox/mailbox_place.h"
#include "thinwire/transport/nats/jetstream.h"
#include "thinwire/transport/nats/join_token.h"
#include "thinwire/transport/nats/nats_answers.h"

namespace {

using namespace thinwire;             // NOLINT(google-build-using-namespace)
using namespace thinwire::transport;  // NOLINT(google-build-using-namespace)

void take_token(std::string_view text) {
  const auto token = decode_join_token(text);
  if (token) require(decode_join_token(encode_join_token(*token)) == *token);
}

void take_key(std::string_view text) {
  const auto key = decode_public_key(NKeyKind::kUser, text);
  if (key) require(encode_public_key(NKeyKind::kUser, *key) == text);
  const auto seed = decode_seed(NKeyKind::kUser, text);
  if (seed) require(encode_seed(NKeyKind::kUser, *seed) == text);
}

// A list of names under its own hash, as anybody may make one, of whatever length it claims.
void take_names(std::span<const uint8_t> bytes) {
  thinwire::ByteReader reader(bytes);
  const uint64_t length = reader.get<uint32_t>() % (8 * kMaxMessageBytes);
  const auto names = reader.get_bytes(reader.remaining());
  BlobAssembly assembly({thinwire::sha256(names), length});
  while (const auto name = assembly.next()) {
    if (!assembly.add(*name, names) && !assembly.add(*name, {})) break;
  }
  if (assembly.complete()) require(assembly.take().size() == length);
}

// The name and the content of a file in a mailbox.
void take_file(std::string_view text) {
  if (const auto name = parse_numbered(text)) require(print_numbered(*name) == text);
  if (const auto sequence = parse_record_name(text)) require(record_name(*sequence) == text);
  if (const auto content = unseal(thinwire::as_bytes(text))) {
    require(std::ranges::equal(seal(*content), thinwire::as_bytes(text)));
  }
}

// A subject, and a notice of the server.
void take_notice(std::span<const uint8_t> bytes) {
  (void)parse_connection_notice(bytes);
  const std::string subject(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  (void)author_of(subject);
  require(subject.starts_with(request_of(subject)));
  if (const auto place = parse_place(subject)) {
    require(parse_place(print_place("_INBOX", *place))->sending == place->sending);
  }
}

}  // namespace

FUZZ_TARGET(courier)(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> bytes(data + 1, size - 1);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  switch (data[0] % 6) {
    case 0:
      take_token(text);
      break;
    case 1:
      take_key(text);
      break;
    case 2:
      (void)parse_store_answer(bytes);
      (void)parse_answer(bytes);
      break;
    case 3:
      take_names(bytes);
      break;
    case 4:
      take_file(text);
      break;
    default:
      take_notice(bytes);
  }
  return 0;
}
