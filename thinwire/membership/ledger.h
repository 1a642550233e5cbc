// The ledger of a run as bytes: records as they are stored and sent (docs/formats.md), and where
// they are kept.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/membership/record.h"

namespace thinwire::membership {

// Signed by the writer, whose key must be the signer's.
Bytes encode_record(const Record& record, const Signer& signer);

// Total: any bytes give a record or kCorruptPayload with a reason. Allocates no more than a fixed
// multiple of the bytes. What decodes is encoded to the same bytes again, but for the signature,
// which is not looked at here.
Result<Record> decode_record(std::span<const uint8_t> bytes);

using Verify = bool (*)(const PublicKey&, std::span<const uint8_t>, const Signature&);

// Whether the writer that the record names signed these bytes; `bytes` decode.
bool is_authentic(std::span<const uint8_t> bytes, const Record& record, Verify verify);

// What the next record names as the one before.
Sha256 record_hash(std::span<const uint8_t> bytes);

// Where a ledger is kept: a stream of records that several may append to. Records are counted from
// 1. An append names the last record that its writer knows of, so that of two writers that do not
// know of each other one is refused. Thread-safety is the implementation's to state.
class LedgerStore {
 public:
  enum class Outcome : uint8_t {
    kStored,
    kOutrun,   // the last record is another one
    kUnknown,  // no answer; it may have been stored
    kFailed,   // it was not stored: a full disk, no connection
  };

  virtual ~LedgerStore() = default;
  // Stores record `expected_last` + 1.
  virtual Outcome append(uint64_t expected_last, std::span<const uint8_t> record) = 0;
  // The number of the last record; 0: there is none.
  virtual uint64_t last() const = 0;
  // kLostPeer where record `sequence` is not there.
  virtual Result<Bytes> read(uint64_t sequence) const = 0;
};

}  // namespace thinwire::membership
