// Runs the fuzz target of what joiners and coordinators send each other briefly: on valid input,
// damaged, and noise.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "target.h"
#include "thinwire/base/rng.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/hosts/run_description.h"
#include "thinwire/hosts/shared_recipe.h"
#include "thinwire/method/registry.h"

namespace thinwire::hosts {
namespace {

Bytes input(uint8_t kind, std::span<const uint8_t> content) {
  Bytes bytes = {kind};
  ByteWriter(bytes).put_bytes(content);
  return bytes;
}

// As the target numbers them.
std::vector<Bytes> valid_inputs() {
  const auto signer = make_signer({1, 2, 3});
  const PublicKey key = signer->key();
  const transport::BlobId blob = transport::blob_id(as_bytes(std::string_view("blob")));
  Request request{RequestKind::kEnrol, {}, key, key, {1, 2, 3}};
  RunDescription description;
  description.numerics = checkpoint::kNumericsVersion;
  description.recipe = "[train]\nsteps = 3\n";
  description.founding = {7, blob.name, blob.name, 7, {key}};
  description.vocabulary = DescribedVocabulary{"vocabulary.json", 258, 5, blob};
  description.sets = {{"train", 6, 10, 100, 400, {{blob, 1}}}};
  KeyRing ring;
  ring.tokens.push_back(make_token(key, Role::kMember, 30, 100));
  ring.keys.push_back({key, key, Role::kObserver, 200, true});
  const std::string recipe = shared_recipe_text(method::load_recipe("", {}));
  return {input(0, encode_request(request, *signer)),
          input(1, encode_answer({{}, false, {4, 5}}, *signer)),
          input(2, encode_enrolment(key, key, *signer, Role::kAuditor, "name")),
          input(3, encode_description(description)),
          input(4, encode_entry(blob, *signer)),
          input(5, as_bytes(recipe)),
          input(6, as_bytes(print_key_ring(ring, 0))),
          input(8, as_bytes(std::string_view(R"({"round": 1, "members": []})"))),
          input(9, as_bytes(std::string_view("localhost:8080")))};
}

TEST(RequestFuzz, TargetSurvivesDamagedInputAndNoise) {
  Rng rng(7, 1);
  const std::vector<Bytes> valid = valid_inputs();
  for (const Bytes& one : valid) fuzz_request(one.data(), one.size());
  for (int round = 0; round < 1000; ++round) {
    Bytes damaged = valid[rng.below(valid.size())];
    for (uint64_t i = 0; i < 1 + rng.below(4); ++i) {
      damaged[1 + rng.below(damaged.size() - 1)] = static_cast<uint8_t>(rng.bits());
    }
    if (rng.below(4) == 0) damaged.resize(1 + rng.below(damaged.size()));
    if (rng.below(4) == 0) damaged[0] |= 0x80;
    fuzz_request(damaged.data(), damaged.size());
    for (uint8_t& byte : damaged) byte = static_cast<uint8_t>(rng.bits());
    fuzz_request(damaged.data(), damaged.size());
  }
}

}  // namespace
}  // namespace thinwire::hosts
