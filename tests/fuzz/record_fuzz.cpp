// libFuzzer target of membership::decode_record and of what the ledger's state makes of records
// (preset fuzz). The first byte says whether the bytes are one record as it comes, or a row of
// records (each: 2 bytes of length, then what stands between the chain's fields and the signature)
// that are put in their places in a chain, so that the fuzzer gets past the hashes.
#include <algorithm>
#include <span>

#include "target.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/membership/state.h"

namespace {

using thinwire::Bytes;
using thinwire::PublicKey;
using thinwire::Signature;
using thinwire::membership::Record;

class NoSigner final : public thinwire::Signer {
 public:
  explicit NoSigner(const PublicKey& key) : key_(key) {}
  PublicKey key() const override { return key_; }
  Signature sign(std::span<const uint8_t>) const override { return {}; }

 private:
  PublicKey key_;
};

constexpr size_t kSignatureBytes = 64;

// Whatever decodes is encoded to the same bytes, but for the signature.
void check_codec(std::span<const uint8_t> bytes) {
  const auto record = thinwire::membership::decode_record(bytes);
  if (!record) return;
  const Bytes again = encode_record(*record, NoSigner(record->writer));
  require(again.size() == bytes.size());
  require(std::ranges::equal(std::span(again).first(again.size() - kSignatureBytes),
                             bytes.first(bytes.size() - kSignatureBytes)));
}

// A state that took a record has rounds that can be trained by.
void check_state(const thinwire::membership::State& state) {
  for (const auto& opening : state.open) {
    require(!opening.steps.empty() && batch_of(opening) > 0);
    const thinwire::Round round = step_of(opening, state.founding->run, 0);
    require(round.roster.size() == opening.roster.size());
  }
}

void run_chain(std::span<const uint8_t> bytes) {
  thinwire::membership::State state;
  thinwire::ByteReader input(bytes);
  while (input.ok() && input.remaining() > 0) {
    const auto body = input.get_bytes(input.get<uint16_t>());
    Record place;
    place.sequence = state.position.sequence + 1;
    place.previous = state.position.hash;
    Bytes chained = encode_record(place, NoSigner(place.writer));
    chained.resize(4 + 2 + 8 + 32 + 32);  // up to the changes
    chained.insert(chained.end(), body.begin(), body.end());
    chained.resize(chained.size() + kSignatureBytes);
    check_codec(chained);
    const auto record = thinwire::membership::decode_record(chained);
    if (!record) continue;
    const auto before = state;
    if (state.apply(*record, thinwire::membership::record_hash(chained))) {
      check_state(state);
    } else {
      require(state == before);
    }
  }
}

}  // namespace

FUZZ_TARGET(record)(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    check_codec(rest);
  } else {
    run_chain(rest);
  }
  return 0;
}
