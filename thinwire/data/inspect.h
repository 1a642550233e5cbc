// Readable descriptions of the files this layer writes, for `thinwire inspect`.
#pragma once

#include <string>

#include "thinwire/base/file.h"

namespace thinwire::data {

// A shard's header, whether its checksum matches, and its first tokens, also as text if the
// vocabulary of its prepared folder is found. Throws Error when it is not a readable shard.
std::string describe_shard(const fs::path& path);

// A prepared folder: inputs, vocabulary and sets.
std::string describe_prepared(const fs::path& folder);

// A SentencePiece model: its number of pieces, its begin and end tokens, and some example pieces.
std::string describe_vocabulary(const fs::path& file);

}  // namespace thinwire::data
