// The token sets of a prepared folder, opened against its record.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/data/shard.h"

namespace thinwire::data {

// Tokens are hashed when sets are opened only where a folder has no more bytes of them; beyond, it
// would take minutes at every start. `thinwire inspect` hashes the tokens of any shard.
inline constexpr uint64_t kHashedAtOnce = uint64_t{4} << 30;

// Every set that prepare.json names, by name; the training set is "train". Throws Error where a
// shard is missing, is not the one that was prepared (by count and by the checksum of its tokens in
// its header), is damaged, belongs to another vocabulary, or lies there without being named.
std::map<std::string, TokenSet> open_sets(const fs::path& folder, uint64_t vocabulary_digest,
                                          uint64_t hashed_at_once = kHashedAtOnce);

}  // namespace thinwire::data
