#include <openssl/evp.h>

#include <algorithm>

#include "thinwire/base/secrets.h"

namespace thinwire {
namespace {

constexpr size_t kTagBytes = 16;

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;

// What encrypts the message from `sender` to `receiver`. One message has it, so that it needs no
// nonce.
Sha256 message_key(const Secret& agreed, const AgreementKey& sender, const AgreementKey& receiver) {
  Bytes all;
  ByteWriter out(all);
  out.put_bytes(agreed);
  out.put_bytes(sender);
  out.put_bytes(receiver);
  return sha256(all);
}

constexpr std::array<uint8_t, 12> kNonce{};

}  // namespace

struct KeyPair::Pair {
  Key key;
};

KeyPair::KeyPair(const Secret& secret) : pair_(std::make_unique<Pair>()) {
  pair_->key.reset(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, secret.data(), secret.size()));
  size_t size = key_.size();
  if (!pair_->key || EVP_PKEY_get_raw_public_key(pair_->key.get(), key_.data(), &size) != 1) {
    throw Error("OpenSSL cannot make an X25519 key");
  }
}

KeyPair::~KeyPair() = default;

std::optional<Secret> KeyPair::agree(const AgreementKey& other) const {
  const Key theirs(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, other.data(), other.size()));
  const std::unique_ptr<EVP_PKEY_CTX, Free> context(EVP_PKEY_CTX_new(pair_->key.get(), nullptr));
  Secret agreed{};
  size_t size = agreed.size();
  if (!theirs || !context || EVP_PKEY_derive_init(context.get()) != 1 ||
      EVP_PKEY_derive_set_peer(context.get(), theirs.get()) != 1 ||
      EVP_PKEY_derive(context.get(), agreed.data(), &size) != 1) {
    return std::nullopt;
  }
  return agreed;
}

Result<Bytes> KeyPair::open(std::span<const uint8_t> sealed) const {
  const auto wrong = [] {
    return fail(FailureKind::kCorruptPayload, "this was not sealed for this receiver");
  };
  if (sealed.size() < kSealBytes) return wrong();
  AgreementKey sender;
  std::copy_n(sealed.begin(), sender.size(), sender.begin());
  const auto agreed = agree(sender);
  if (!agreed) return wrong();
  const Sha256 key = message_key(*agreed, sender, key_);
  const auto coded = sealed.subspan(sender.size(), sealed.size() - kSealBytes);
  Bytes tag(sealed.end() - kTagBytes, sealed.end());
  Bytes message(coded.size());
  const std::unique_ptr<EVP_CIPHER_CTX, Free> context(EVP_CIPHER_CTX_new());
  int size = 0, end = 0;
  if (!context ||
      EVP_DecryptInit_ex(context.get(), EVP_chacha20_poly1305(), nullptr, key.bytes.data(),
                         kNonce.data()) != 1 ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag.data()) != 1 ||
      EVP_DecryptUpdate(context.get(), message.data(), &size, coded.data(),
                        static_cast<int>(coded.size())) != 1 ||
      EVP_DecryptFinal_ex(context.get(), message.data() + size, &end) != 1) {
    return wrong();
  }
  return message;
}

Bytes seal(const AgreementKey& receiver, std::span<const uint8_t> message) {
  const KeyPair sender;
  const auto agreed = sender.agree(receiver);
  if (!agreed) throw Error("a message cannot be sealed: the receiver's key is none of X25519");
  const Sha256 key = message_key(*agreed, sender.key(), receiver);
  Bytes sealed(message.size() + kSealBytes);
  std::ranges::copy(sender.key(), sealed.begin());
  uint8_t* const coded = sealed.data() + sender.key().size();
  const std::unique_ptr<EVP_CIPHER_CTX, Free> context(EVP_CIPHER_CTX_new());
  int size = 0, end = 0;
  if (!context ||
      EVP_EncryptInit_ex(context.get(), EVP_chacha20_poly1305(), nullptr, key.bytes.data(),
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

void add_key_stream(const Secret& key, uint64_t first, bool subtract, std::span<float> words) {
  constexpr size_t kPiece = 4096;  // words
  constexpr uint64_t kBlock = 16;  // words
  const std::unique_ptr<EVP_CIPHER_CTX, Free> context(EVP_CIPHER_CTX_new());
  std::array<uint8_t, 16> start{};  // the block's number, then the nonce
  const auto block = static_cast<uint32_t>(first / kBlock);
  std::memcpy(start.data(), &block, sizeof block);
  if (!context ||
      EVP_EncryptInit_ex(context.get(), EVP_chacha20(), nullptr, key.data(), start.data()) != 1) {
    throw Error("OpenSSL cannot make a key stream with ChaCha20");
  }
  const Bytes nothing(kPiece * sizeof(uint32_t));
  std::array<uint32_t, kPiece> stream;
  while (!words.empty()) {
    const auto now = words.first(std::min(kPiece, words.size()));
    int size = 0;
    if (EVP_EncryptUpdate(context.get(), reinterpret_cast<uint8_t*>(stream.data()), &size,
                          nothing.data(), static_cast<int>(now.size_bytes())) != 1) {
      throw Error("OpenSSL cannot make a key stream with ChaCha20");
    }
    for (size_t i = 0; i < now.size(); ++i) {
      const auto word = std::bit_cast<uint32_t>(now[i]);
      now[i] = std::bit_cast<float>(subtract ? word - stream[i] : word + stream[i]);
    }
    words = words.subspan(now.size());
  }
}

}  // namespace thinwire
