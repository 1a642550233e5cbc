// What a Hugging Face folder says of its model beside the weights: configuration, sampling,
// tokenizer, chat template, model card. Imports and runs that begin with them keep these files, so
// that an export gives them back but for what training changed.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/convert/hf_config.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::convert {

// Its name in a checkpoint: a JSON object of file names and their texts.
inline constexpr const char* kOriginFile = "hugging_face.json";

using HfOrigin = std::map<std::string, std::string>;  // texts by file name; empty: from no folder

// The files of a Hugging Face folder that are kept; such as are no text are left out.
HfOrigin read_origin(const fs::path& hf_dir);

// What a checkpoint keeps. Throws Error that names the file when it is damaged.
HfOrigin load_origin(const fs::path& checkpoint);
std::string print_origin(const HfOrigin& origin);

// kOriginFile's content for checkpoints of a run that begins with the model in `source`, which is
// anything that load_model takes; empty where it is from no Hugging Face folder.
std::string origin_text_of(const fs::path& source);

// What goes out as config.json and generation_config.json. `before` and `now` are the printed
// descriptions of the model as it came in and as it is: a field that differs between them is what
// training or the export has changed, all others are those of the file that came in.
std::string merge_json(const std::string& origin, const HfJson& before, const HfJson& now);

}  // namespace thinwire::convert
