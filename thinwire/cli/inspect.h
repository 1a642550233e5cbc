// Readable descriptions of everything Thinwire writes, each a few lines ending in a line end. All
// throw Error naming the file where it is damaged.
#pragma once

#include <string>

#include "thinwire/base/file.h"

namespace thinwire::cli {

// Whatever lies at this path, recognised by its contents or, where it has no marks, by its name.
// Throws Error that lists what is known for anything else.
std::string describe_path(const fs::path& path);

// inspect_run.cpp
std::string describe_run(const fs::path& folder);
std::string describe_run_log(const fs::path& file);
std::string describe_summary(const fs::path& file);
std::string describe_tensorboard(const fs::path& file);

// inspect_csv.cpp
std::string describe_csv(const fs::path& file);

// inspect_tensors.cpp
std::string describe_checkpoint(const fs::path& folder);
std::string describe_safetensors(const fs::path& file);
std::string describe_hugging_face(const fs::path& folder);
std::string describe_payload(const fs::path& file);

}  // namespace thinwire::cli
