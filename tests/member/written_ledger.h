// A run's ledger as its coordinator writes it, for tests of whoever reads it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "thinwire/base/signature.h"
#include "thinwire/membership/ledger.h"

namespace thinwire::member {

inline std::unique_ptr<Signer> signer_of(uint8_t number) {
  Seed seed{};
  seed[0] = number;
  return make_signer(seed);
}

inline PublicKey member_key(int member) {
  return signer_of(static_cast<uint8_t>(100 + member))->key();
}

// Writes a ledger, record by record.
class WrittenLedger {
 public:
  explicit WrittenLedger(uint64_t run = 7) : founding{run, {}, {}, 500, {signer_->key()}} {}

  Bytes add(std::vector<membership::Change> changes,
            std::optional<membership::Closing> closing = {},
            std::vector<membership::Opening> openings = {}) {
    membership::Record record;
    record.sequence = ++last_;
    record.previous = hash_;
    record.writer = signer_->key();
    record.changes = std::move(changes);
    record.closing = std::move(closing);
    record.openings = std::move(openings);
    Bytes bytes = membership::encode_record(record, *signer_);
    hash_ = membership::record_hash(bytes);
    return bytes;
  }
  Bytes found() { return add({founding}); }
  Bytes admit(int member) { return add({membership::Admission{member, member_key(member)}}); }
  // Member 0 trains in it alone.
  Bytes open(uint64_t round, uint32_t epoch) {
    membership::Opening opening;
    opening.round = round;
    opening.epoch = epoch;
    opening.first_step = round;
    opening.steps = {{0.5f, 0.5f}};
    opening.roster = {{0, {0, 4}, round}};
    return add({membership::PhaseChange{0, membership::Phase::kActive, {}}}, {}, {opening});
  }
  Bytes close(uint64_t round) { return add({}, membership::Closing{round, {}, {}}); }

 private:
  const std::unique_ptr<Signer> signer_ = signer_of(1);

 public:
  const membership::Founding founding;

 private:
  uint64_t last_ = 0;
  Sha256 hash_;
};

}  // namespace thinwire::member
