// Chunks of blobs as files, by their SHA-256.
#pragma once

#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/sha256.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/mailbox/mailbox_place.h"

namespace thinwire::transport {

// Stores a chunk of this participant's own, unless it is there unaltered. kRefused: no space or no
// permission; other failures may be over later.
Result<void> store_chunk(const MailboxPlace& place, const Chunk& chunk);

struct FoundChunk {
  Bytes bytes;
  bool whole = false;  // they match the name; false: altered, or still being copied
};
// kLostPeer: the holder has no such chunk here.
Result<FoundChunk> find_chunk(const MailboxPlace& place, const std::string& holder,
                              const Sha256& name);

// The names of a holder's chunks that are here; none if it has no folder.
std::vector<Sha256> list_chunks(const MailboxPlace& place, const std::string& holder);

// Of this participant's own. It is no failure if it is not there.
Result<void> remove_chunk(const MailboxPlace& place, const Sha256& name);

}  // namespace thinwire::transport
