// The token sets of a prepared folder, checked against its record.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/data/shard.h"

namespace thinwire::data {

// When sets are opened, tokens are hashed only if the folder has at most this many bytes of them;
// beyond that it would take minutes at every start. `thinwire inspect` hashes any shard's tokens.
inline constexpr uint64_t kHashedAtOnce = uint64_t{4} << 30;

// Every set that prepare.json lists, by name; the training set is "train". Throws Error if a shard
// is missing, is not the one that was prepared (by count and by the checksum of its tokens in its
// header), is damaged, belongs to another vocabulary, or exists without being listed.
std::map<std::string, TokenSet> open_sets(const fs::path& folder, uint64_t vocabulary_digest,
                                          uint64_t hashed_at_once = kHashedAtOnce);

}  // namespace thinwire::data
