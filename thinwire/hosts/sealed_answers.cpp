#include <openssl/evp.h>

#include <algorithm>
#include <optional>

#include "thinwire/base/digest.h"
#include "thinwire/hosts/requests.h"

namespace thinwire::hosts {
namespace {

constexpr size_t kTagBytes = 16;

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;

Key make_pair(SealKey& public_key) {
  Key pair(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519"));
  size_t size = public_key.size();
  if (!pair || EVP_PKEY_get_raw_public_key(pair.get(), public_key.data(), &size) != 1) {
    throw Error("OpenSSL cannot make an X25519 key");
  }
  return pair;
}

// What encrypts the message from `sender` to `receiver`; empty if the other's is no key. One
// message has it, so that it needs no nonce.
std::optional<Sha256> agree(EVP_PKEY* own, const SealKey& other, const SealKey& sender,
                            const SealKey& receiver) {
  const Key theirs(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, other.data(), other.size()));
  const std::unique_ptr<EVP_PKEY_CTX, Free> context(EVP_PKEY_CTX_new(own, nullptr));
  std::array<uint8_t, 32> shared{};
  size_t size = shared.size();
  if (!theirs || !context || EVP_PKEY_derive_init(context.get()) != 1 ||
      EVP_PKEY_derive_set_peer(context.get(), theirs.get()) != 1 ||
      EVP_PKEY_derive(context.get(), shared.data(), &size) != 1) {
    return std::nullopt;
  }
  Bytes all;
  ByteWriter out(all);
  out.put_bytes(shared);
  out.put_bytes(sender);
  out.put_bytes(receiver);
  return sha256(all);
}

constexpr std::array<uint8_t, 12> kNonce{};

}  // namespace

struct SealReceiver::Pair {
  Key key;
};

SealReceiver::SealReceiver() : pair_(std::make_unique<Pair>()) { pair_->key = make_pair(key_); }
SealReceiver::~SealReceiver() = default;

Result<Bytes> SealReceiver::open(std::span<const uint8_t> sealed) const {
  const auto wrong = [] {
    return fail(FailureKind::kCorruptPayload, "this was not sealed for this receiver");
  };
  if (sealed.size() < kSealBytes) return wrong();
  SealKey sender;
  std::copy_n(sealed.begin(), sender.size(), sender.begin());
  const auto key = agree(pair_->key.get(), sender, sender, key_);
  if (!key) return wrong();
  const auto coded = sealed.subspan(sender.size(), sealed.size() - kSealBytes);
  Bytes tag(sealed.end() - kTagBytes, sealed.end());
  Bytes message(coded.size());
  const std::unique_ptr<EVP_CIPHER_CTX, Free> context(EVP_CIPHER_CTX_new());
  int size = 0, end = 0;
  if (!context ||
      EVP_DecryptInit_ex(context.get(), EVP_chacha20_poly1305(), nullptr, key->bytes.data(),
                         kNonce.data()) != 1 ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag.data()) != 1 ||
      EVP_DecryptUpdate(context.get(), message.data(), &size, coded.data(),
                        static_cast<int>(coded.size())) != 1 ||
      EVP_DecryptFinal_ex(context.get(), message.data() + size, &end) != 1) {
    return wrong();
  }
  return message;
}

Bytes seal(const SealKey& receiver, std::span<const uint8_t> message) {
  SealKey sender;
  const Key pair = make_pair(sender);
  const auto key = agree(pair.get(), receiver, sender, receiver);
  if (!key) throw Error("a message cannot be sealed: the receiver's key is none of X25519");
  Bytes sealed(message.size() + kSealBytes);
  std::ranges::copy(sender, sealed.begin());
  uint8_t* const coded = sealed.data() + sender.size();
  const std::unique_ptr<EVP_CIPHER_CTX, Free> context(EVP_CIPHER_CTX_new());
  int size = 0, end = 0;
  if (!context ||
      EVP_EncryptInit_ex(context.get(), EVP_chacha20_poly1305(), nullptr, key->bytes.data(),
                         kNonce.data()) != 1 ||
      EVP_EncryptUpdate(context.get(), coded, &size, message.data(),
                        static_cast<int>(message.size())) != 1 ||
      EVP_EncryptFinal_ex(context.get(), coded + size, &end) != 1 ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes,
                          coded + message.size()) != 1) {
    throw Error("OpenSSL cannot encrypt with ChaCha20-Poly1305");
  }
  return sealed;
}

}  // namespace thinwire::hosts
