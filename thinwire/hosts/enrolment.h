// How a newcomer proves that it has a token where no server checks who sends what, as in a mailbox:
// its request to be enrolled holds a message that the token's key has signed.
// docs/formats.md, "Requests and answers".
#pragma once

#include <span>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"

namespace thinwire::hosts {

// That `key` may be enrolled in the run with this token.
Bytes encode_enrolment(const PublicKey& run, const PublicKey& key, const Signer& token);

// Total. The key of the token that signed it; kCorruptPayload for anything else, and for an
// enrolment of another key or in another run.
Result<PublicKey> decode_enrolment(std::span<const uint8_t> bytes, const PublicKey& run,
                                   const PublicKey& key);

}  // namespace thinwire::hosts
