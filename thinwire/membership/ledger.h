// The ledger of a run as bytes: how records are encoded for storing and sending (docs/formats.md),
// and where they are kept.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/membership/record.h"

namespace thinwire::membership {

// Signs the record as its writer; record.writer must be the signer's key.
Bytes encode_record(const Record& record, const Signer& signer);

// Total: any bytes give a record or kCorruptPayload with a reason. Allocates no more than a fixed
// multiple of the input size. A decoded record encodes to the same bytes again, apart from the
// signature, which is not checked here.
Result<Record> decode_record(std::span<const uint8_t> bytes);

using Verify = bool (*)(const PublicKey&, std::span<const uint8_t>, const Signature&);

// Whether the writer named in `record` signed `bytes`, which must decode.
bool is_authentic(std::span<const uint8_t> bytes, const Record& record, Verify verify);

// The hash by which the next record names this one as its predecessor.
Sha256 record_hash(std::span<const uint8_t> bytes);

// Where a ledger is kept: a stream of records that several may append to. Records are counted from
// 1. An append names the last record that its writer knows of, so if two writers that do not know
// of each other append, one is refused. Each implementation states its thread-safety.
class LedgerStore {
 public:
  enum class Outcome : uint8_t {
    kStored,
    kOutrun,   // refused: `expected_last` is not the last record
    kUnknown,  // no answer; it may have been stored
    kFailed,   // it was not stored: disk full, no connection
  };

  virtual ~LedgerStore() = default;
  // Stores record `expected_last` + 1.
  virtual Outcome append(uint64_t expected_last, std::span<const uint8_t> record) = 0;
  // The number of the last record; 0 if there is none.
  virtual uint64_t last() const = 0;
  // kLostPeer if record `sequence` is not there.
  virtual Result<Bytes> read(uint64_t sequence) const = 0;
};

}  // namespace thinwire::membership
