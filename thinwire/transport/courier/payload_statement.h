// What a member states about a payload that it offers: which operation it is for, and which blob it
// is. Signed with the member's key, so that neither another member nor a server can make a
// statement in its name. docs/formats.md, "Payload statements".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/transport/communicator.h"
#include "thinwire/transport/courier/blob.h"

namespace thinwire::transport {

struct PayloadStatement {
  Key operation;  // run, epoch, round and fragment
  int member = 0;
  BlobId payload;
  bool operator==(const PayloadStatement&) const = default;
};

Bytes encode_payload_statement(const PayloadStatement& statement, const Signer& member);

// The key of a member; nothing for a member that does not take part.
using FindKey = std::function<std::optional<PublicKey>(int member)>;

// Total. Returns a statement only if its member signed exactly these bytes, and kCorruptPayload
// otherwise. kRefused for a payload of more than `max_bytes`.
Result<PayloadStatement> decode_payload_statement(std::span<const uint8_t> bytes,
                                                  const FindKey& find_key, uint64_t max_bytes);

}  // namespace thinwire::transport
