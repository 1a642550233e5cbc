// The frozen base of a run that trains an adapter: described by the coordinator, and found by
// members in a folder of their own or received. It is named by the digest of its weights
// (checkpoint/adapter_base.h), which every member checks, and travels as the files that the
// coordinator has, in parts, of which those that have arrived are kept when this is interrupted.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>

#include "thinwire/base/file.h"
#include "thinwire/base/sha256.h"
#include "thinwire/hosts/run_data.h"
#include "thinwire/hosts/run_description.h"

namespace thinwire::hosts {

inline constexpr const char* kBaseFolder = "base";  // of a member's run folder

// Reads every file once. `files`: in one folder.
DescribedBase describe_base(uint64_t digest, std::span<const fs::path> files);

// The parts of the files in `folder`, by blob name.
std::map<Sha256, FilePart> base_parts(const DescribedBase& base, const fs::path& folder);

// Whether `folder` has these files. Reads each once.
bool has_files(const fs::path& folder, const DescribedBase& base);

// Makes `folder` appear with these files, which are `what` ("the base"). Parts that an earlier call
// has received are not fetched again. Does nothing if the folder is there. Throws Error if there is
// no room for them; `instead` ends its sentence, with what else would help.
void receive_base(const fs::path& folder, const DescribedBase& base, const Reception& reception,
                  std::string_view what = "the base",
                  std::string_view instead = ", or name a copy of the base with train.init=FOLDER");

}  // namespace thinwire::hosts
