// Runs the fuzz target of what comes from other hosts briefly: on valid input, damaged, and noise.
#include <gtest/gtest.h>

#include "target.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/rng.h"
#include "thinwire/transport/mailbox/mailbox_place.h"
#include "thinwire/transport/nats/certificates.h"
#include "thinwire/transport/nats/join_token.h"

namespace thinwire::transport {
namespace {

Bytes text(uint8_t kind, std::string_view content) {
  Bytes input = {kind};
  ByteWriter(input).put_bytes(as_bytes(content));
  return input;
}

std::vector<Bytes> valid_inputs() {
  const Seed seed = {1, 2, 3};
  const auto signer = make_signer(seed);
  const std::string authority = make_authority({0, 4'000'000'000}).certificate;
  const std::string names(96, 'n');
  const Bytes sealed = seal(as_bytes("content"));
  const std::string run = encode_public_key(NKeyKind::kUser, signer->key());
  return {text(0, encode_join_token({.run = run, .secret = seed, .authority_fingerprint = {{}}})),
          text(1, encode_public_key(NKeyKind::kUser, signer->key())),
          text(1, encode_seed(NKeyKind::kUser, seed)),
          text(2, R"({"stream":"r-blobs","seq":1})"),
          text(2, R"({"error":{"code":400,"err_code":10071,"description":"wrong"}})"),
          text(3, std::string("\0\0\x08\0", 4) + names),
          text(3, std::string(4, '\0')),
          text(0, encode_join_token({.run = run, .secret = seed})),
          text(0, encode_join_token({.run = run,
                                     .secret = seed,
                                     .servers = {"host:1", "host:2"},
                                     .jwt = "a.b.c",
                                     .authority = authority})),
          text(4, print_numbered({17, "topic"})),
          text(4, record_name(3)),
          text(4, {reinterpret_cast<const char*>(sealed.data()), sealed.size()}),
          text(5, "run.say.author.topic"),
          text(5, "run.ledger.17"),
          text(5, R"({"client":{"nkey":"U"}})")};
}

TEST(CourierFuzz, TargetSurvivesDamagedInputAndNoise) {
  Rng rng(6, 1);
  const std::vector<Bytes> valid = valid_inputs();
  for (const Bytes& input : valid) fuzz_courier(input.data(), input.size());
  for (int round = 0; round < 5000; ++round) {
    Bytes input = valid[rng.below(valid.size())];
    for (uint64_t i = 0; i < 1 + rng.below(4); ++i) {
      input[rng.below(input.size())] = static_cast<uint8_t>(rng.bits());
    }
    if (rng.below(4) == 0) input.resize(rng.below(input.size() + 1));
    fuzz_courier(input.data(), input.size());
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(rng.bits());
    fuzz_courier(input.data(), input.size());
  }
}

}  // namespace
}  // namespace thinwire::transport
