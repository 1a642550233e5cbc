// Secrets on disk: in a folder that only its owner may read.
#pragma once

#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {

// Creates the folder if there is none, and gives access to its owner only.
void make_private_folder(const fs::path& folder);

// The secret in `file`, which is in a private folder, as the text of an NKey seed. Throws Error if
// the file is missing or holds something else.
Seed load_seed(const fs::path& file, transport::NKeyKind kind = transport::NKeyKind::kUser);
void store_seed(const fs::path& file, const Seed& seed,
                transport::NKeyKind kind = transport::NKeyKind::kUser);
// Like load_seed, but creates and stores a seed if the file is missing.
Seed load_or_make_seed(const fs::path& file, transport::NKeyKind kind = transport::NKeyKind::kUser);

}  // namespace thinwire::hosts
