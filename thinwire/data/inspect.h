// Readable descriptions of the files this layer writes, for `thinwire inspect`.
#pragma once

#include <string>

#include "thinwire/base/file.h"

namespace thinwire::data {

// A shard's header, its checksum's state and its first tokens; as text too when the vocabulary of
// its prepared folder is found. Throws Error when it is not a readable shard.
std::string describe_shard(const fs::path& path);

// A prepared folder: inputs, vocabulary and sets.
std::string describe_prepared(const fs::path& folder);

// A SentencePiece model: how many pieces, which of them are marks, and some as examples.
std::string describe_vocabulary(const fs::path& file);

}  // namespace thinwire::data
