// Readable descriptions of everything Thinwire writes, each a few lines with a final newline. All
// throw Error naming the file if it is damaged.
#pragma once

#include <string>

#include "thinwire/base/file.h"

namespace thinwire::cli {

// Describes whatever is at this path, recognised by its contents or, failing that, by its name. For
// anything else it throws Error that lists what is known.
std::string describe_path(const fs::path& path);

// inspect_run.cpp
std::string describe_run(const fs::path& folder);
std::string describe_checkpoints(const fs::path& folder);  // the newest one whole
std::string describe_run_log(const fs::path& file);
std::string describe_summary(const fs::path& file);
std::string describe_tensorboard(const fs::path& file);

// inspect_csv.cpp
std::string describe_csv(const fs::path& file);

// inspect_tensors.cpp
std::string describe_checkpoint(const fs::path& folder);
std::string describe_safetensors(const fs::path& file);
std::string describe_hugging_face(const fs::path& folder);
std::string describe_peft(const fs::path& folder);
std::string describe_payload(const fs::path& file);

}  // namespace thinwire::cli
