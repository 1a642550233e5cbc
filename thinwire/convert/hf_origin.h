// The files of a Hugging Face folder other than the weights: configuration, sampling, tokenizer,
// chat template, model card. Imports, and runs that start from such a folder or an import, keep
// these files so that an export can return them, except for what training changed.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/convert/hf_config.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::convert {

// The file that holds them in a checkpoint: a JSON object of texts by file name; tokenizer.model is
// in base64.
inline constexpr const char* kOriginFile = "hugging_face.json";

// Contents by file name. Without config.json the model is from no such folder, but its run may have
// a chat template.
using HfOrigin = std::map<std::string, std::string>;

// Reads the files to keep from a Hugging Face folder. Skips empty files and invalid UTF-8.
HfOrigin read_origin(const fs::path& hf_dir);

// The files kept in a checkpoint. Throws Error with the file's name if it is damaged.
HfOrigin load_origin(const fs::path& checkpoint);
std::string print_origin(const HfOrigin& origin);

// The files kept of the model in `source`, which is anything that load_model accepts.
HfOrigin origin_of(const fs::path& source);

// The exported text of config.json or generation_config.json. `origin` is the imported file's text.
// `before` and `now` are the printed descriptions of the model as imported and as it is now. Fields
// that differ between them were changed by training or the export and are taken from `now`; all
// other fields are taken from `origin`.
std::string merge_json(const std::string& origin, const HfJson& before, const HfJson& now);

}  // namespace thinwire::convert
