#include "thinwire/base/signature.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>

#include "thinwire/base/error.h"

namespace thinwire {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Context = std::unique_ptr<EVP_MD_CTX, Free>;

class Ed25519Signer final : public Signer {
 public:
  explicit Ed25519Signer(const Seed& seed)
      : private_(
            EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size())) {
    size_t size = public_.bytes.size();
    if (!private_ ||
        EVP_PKEY_get_raw_public_key(private_.get(), public_.bytes.data(), &size) != 1) {
      throw Error("OpenSSL cannot make an Ed25519 key");
    }
  }

  PublicKey key() const override { return public_; }

  Signature sign(std::span<const uint8_t> message) const override {
    const Context context(EVP_MD_CTX_new());
    Signature signature;
    size_t size = signature.bytes.size();
    if (!context ||
        EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, private_.get()) != 1 ||
        EVP_DigestSign(context.get(), signature.bytes.data(), &size, message.data(),
                       message.size()) != 1) {
      throw Error("OpenSSL cannot sign with Ed25519");
    }
    return signature;
  }

 private:
  Key private_;
  PublicKey public_;
};

}  // namespace

Seed make_seed() {
  Seed seed;
  if (RAND_bytes(seed.data(), static_cast<int>(seed.size())) != 1) {
    throw Error("the system supplies no random numbers for a key");
  }
  return seed;
}

std::unique_ptr<Signer> make_signer(const Seed& seed) {
  return std::make_unique<Ed25519Signer>(seed);
}

bool verify(const PublicKey& key, std::span<const uint8_t> message, const Signature& signature) {
  const Key point(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.bytes.data(), key.bytes.size()));
  const Context context(EVP_MD_CTX_new());
  return point && context &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, point.get()) == 1 &&
         EVP_DigestVerify(context.get(), signature.bytes.data(), signature.bytes.size(),
                          message.data(), message.size()) == 1;
}

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
