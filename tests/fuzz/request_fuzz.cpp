// libFuzzer target of what joiners and coordinators receive from each other beside the ledger
// (preset fuzz): requests, answers, enrolments, run descriptions, entry points, received recipes,
// rings of keys, statuses, and the Host header of a request for the live page. The first byte says
// which and, in its highest bit, whether the rest is signed first, so that the fuzzer gets past
// signatures.
#include <memory>
#include <string_view>

#include "target.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/hosts/run_description.h"
#include "thinwire/hosts/run_status.h"
#include "thinwire/hosts/shared_keys.h"
#include "thinwire/hosts/shared_recipe.h"
#include "thinwire/page/page_server.h"

namespace {

using namespace thinwire::hosts;  // NOLINT(google-build-using-namespace)
using thinwire::Bytes;

const thinwire::Signer& signer() {
  static const auto one = thinwire::make_signer({1, 2, 3});
  return *one;
}

// Whatever decodes was signed, and is encoded to the same bytes.
void take_request(std::span<const uint8_t> bytes) {
  const auto request = decode_request(bytes, signer().key());
  if (!request) return;
  require(request->run == signer().key());
  if (request->requester != signer().key()) return;
  require(std::ranges::equal(encode_request(*request, signer()), bytes));
}

void take_answer(std::span<const uint8_t> bytes) {
  const auto answer = decode_answer(bytes, signer().key());
  if (answer) require(std::ranges::equal(encode_answer(*answer, signer()), bytes));
}

void take_enrolment(std::span<const uint8_t> bytes) {
  const auto enrolment = decode_enrolment(bytes, signer().key(), signer().key());
  if (enrolment && enrolment->token == signer().key()) {
    const Bytes again = encode_enrolment(signer().key(), signer().key(), signer(), enrolment->role,
                                         enrolment->machine);
    require(std::ranges::equal(again, bytes));
  }
}

void take_description(std::span<const uint8_t> bytes) {
  const auto description = decode_description(bytes);
  if (description) require(decode_description(encode_description(*description)) == *description);
}

void take_entry(std::span<const uint8_t> bytes) {
  const auto entry = decode_entry(bytes, signer().key());
  if (entry) require(std::ranges::equal(encode_entry(*entry, signer()), bytes));
}

// A recipe is refused with a message, and nothing else.
void take_recipe(std::string_view text) {
  try {
    const auto recipe = member_recipe(text, {}, "run", "data", "");
    require(recipe.run.dir == "run" && recipe.data.dir == "data" && recipe.train.init.empty());
  } catch (const thinwire::Error&) {
    return;
  }
}

void take_ring(std::string_view text) {
  KeyRing ring;
  try {
    ring = read_key_ring(text);
  } catch (const std::exception&) {
    return;
  }
  require(read_key_ring(print_key_ring(ring, 0)) == ring);
}

void take_host(std::string_view text) {
  (void)thinwire::page::is_own_host(text, "127.0.0.1:8080", "machine");
}

}  // namespace

FUZZ_TARGET(request)(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  Bytes input(data + 1, data + size);
  if ((data[0] & 0x80) != 0) thinwire::sign_message(input, signer());
  const std::span<const uint8_t> bytes(input);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  switch (data[0] % 10) {
    case 0:
      take_request(bytes);
      break;
    case 1:
      take_answer(bytes);
      break;
    case 2:
      take_enrolment(bytes);
      break;
    case 3:
      take_description(bytes);
      break;
    case 4:
      take_entry(bytes);
      break;
    case 5:
      take_recipe(text);
      break;
    case 6:
      take_ring(text);
      break;
    case 7:
      (void)decode_shared_keys(bytes, signer().key());
      break;
    case 8:
      (void)read_status(text);
      break;
    default:
      take_host(text);
  }
  return 0;
}
