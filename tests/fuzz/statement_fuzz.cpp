// libFuzzer target of membership::decode_statement (preset fuzz): whatever decodes is encoded to
// the same bytes, but for the signature.
#include <algorithm>
#include <cstdlib>
#include <span>

#include "target.h"
#include "thinwire/membership/message_codec.h"

namespace {

using thinwire::PublicKey;
using thinwire::Signature;

class EmptySigner final : public thinwire::Signer {
 public:
  explicit EmptySigner(const PublicKey& key) : key_(key) {}
  PublicKey key() const override { return key_; }
  Signature sign(std::span<const uint8_t>) const override { return {}; }

 private:
  PublicKey key_;
};

bool anything(const PublicKey&, std::span<const uint8_t>, const Signature&) { return true; }

constexpr size_t kSignatureBytes = 64;
constexpr size_t kRunAt = 6;

}  // namespace

FUZZ_TARGET(statement)(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  uint64_t run = 0;
  if (size >= kRunAt + sizeof(run)) {
    run = thinwire::ByteReader(bytes.subspan(kRunAt)).get<uint64_t>();
  }
  const auto statement = thinwire::membership::decode_statement(bytes, run, anything);
  if (!statement) return 0;
  const thinwire::Bytes again = encode_statement(*statement, EmptySigner(statement->author));
  const bool same =
      again.size() == size && std::ranges::equal(std::span(again).first(size - kSignatureBytes),
                                                 bytes.first(size - kSignatureBytes));
  if (!same) std::abort();
  return 0;
}
