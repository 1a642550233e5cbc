// What a member says of a payload that it offers: for which operation, and which bytes. Signed by
// its key, so that neither another member nor a server can say it in its name. docs/formats.md,
// "Payload statements".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/transport/blob.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::transport {

struct PayloadStatement {
  Key operation;  // run, epoch, round and fragment
  int member = 0;
  BlobId payload;
  bool operator==(const PayloadStatement&) const = default;
};

Bytes encode_payload_statement(const PayloadStatement& statement, const Signer& member);

// The key of a member; nothing for one that does not take part.
using FindKey = std::function<std::optional<PublicKey>(int member)>;

// Total, and nothing of a statement comes out unless its member signed exactly these bytes:
// kCorruptPayload for anything else. kRefused for a payload of more than `max_bytes`.
Result<PayloadStatement> decode_payload_statement(std::span<const uint8_t> bytes,
                                                  const FindKey& find_key, uint64_t max_bytes);

}  // namespace thinwire::transport
