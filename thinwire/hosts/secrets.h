// Secrets on disk: in a folder that only its owner may read.
#pragma once

#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"

namespace thinwire::hosts {

// Creates the folder if there is none, and gives access to its owner only.
void make_private_folder(const fs::path& folder);

// The secret in `file`, which is in a private folder; made and stored there if there is none yet,
// as the text of an NKey seed. Throws Error if the file holds something else.
Seed load_or_make_seed(const fs::path& file);

}  // namespace thinwire::hosts
