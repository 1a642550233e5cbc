// What members keep from those who carry their messages, or add up what they send: random numbers
// that nobody can predict, keys that two agree on, messages that one reader can open, secrets that
// only several together know, and key streams that hide numbers. From OpenSSL's libcrypto, but for
// the shares of a secret. Thread-safe. Functions that need random numbers throw Error if the system
// supplies none.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"

namespace thinwire {

// --- random numbers, from a generator that the system seeds: never the same twice, so nothing that
// replicas must agree on may depend on them

// Uniform in [0, 1), 53 random bits.
double secret_uniform();

// Independent standard normal values (Box-Muller of 53 random bits each), none beyond 8.6. Their
// last bits are not those of a normal distribution: what hides something with them is to be rounded
// to a grid that does not depend on it.
void fill_secret_normals(std::span<double> values);

using Secret = std::array<uint8_t, 32>;

Secret make_secret();

// --- keys that two agree on, without anybody else's knowing them: Diffie-Hellman, X25519 (RFC
// 7748)

using AgreementKey = std::array<uint8_t, 32>;  // a public key

class KeyPair {
 public:
  KeyPair() : KeyPair(make_secret()) {}
  explicit KeyPair(const Secret& secret);  // any 32 bytes are a private key
  ~KeyPair();
  KeyPair(const KeyPair&) = delete;
  KeyPair& operator=(const KeyPair&) = delete;

  const AgreementKey& key() const { return key_; }
  // The same for both owners, each with the other's key; nothing if `other` is no key.
  std::optional<Secret> agree(const AgreementKey& other) const;
  // Total: any bytes give what was sealed for this key, or kCorruptPayload.
  Result<Bytes> open(std::span<const uint8_t> sealed) const;

 private:
  struct Pair;
  std::unique_ptr<Pair> pair_;
  AgreementKey key_{};
};

// By how much a sealed message is longer.
inline constexpr size_t kSealBytes = 32 + 16;

// The message, encrypted for the owner of a key, with ChaCha20-Poly1305 (RFC 8439) and a key that
// is agreed on with a key pair of its own: that pair's public key, the encrypted message, and its
// tag of 16 bytes. It does not say who sent it. Throws Error if `receiver` is no key.
Bytes seal(const AgreementKey& receiver, std::span<const uint8_t> message);

// --- shares of a secret, any `needed` of which give it, and fewer nothing at all (Shamir 1979,
// "How to share a secret"): each byte is the value at 0 of a polynomial over GF(2^8) of degree
// needed - 1 with random coefficients, and share i has its value at i + 1

// `shares`: at most 255. 1 <= needed <= shares.
std::vector<Secret> share_secret(const Secret& secret, size_t shares, size_t needed);

struct SecretShare {
  size_t index = 0;  // from 0; of each share another one, below 255
  Secret value{};
};
// The secret, from as many shares as are needed. Other shares give another secret.
Secret combine_shares(std::span<const SecretShare> shares);

// --- masks

// Adds to `words`, modulo 2^32, those of the key's stream from word `first` on, or subtracts them:
// ChaCha20's (RFC 8439, nonce 0, block counter from 0), little-endian. `first`: a multiple of 16,
// which are a block. A float's bits are a word.
void add_key_stream(const Secret& key, uint64_t first, bool subtract, std::span<float> words);

}  // namespace thinwire
