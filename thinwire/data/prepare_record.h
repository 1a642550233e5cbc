// prepare.json: what a prepared folder was made from, and what it holds.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/config/sections.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/text.h"

namespace thinwire::data {

inline constexpr const char* kRecordFile = "prepare.json";

struct PrepareRecord {
  nlohmann::json settings;        // the [data] section but its dir
  std::vector<InputFile> inputs;  // text, further validation text, an existing vocabulary model
  uint64_t vocabulary_digest = 0;
  PrepareSummary summary;
};

// Settings and inputs of a preparation that is about to begin.
PrepareRecord make_record(const config::DataSection& data);

// Why a folder prepared as described by `old` cannot be used for `wanted`: one line for each
// difference; empty if it can.
std::vector<std::string> differences(const PrepareRecord& old, const PrepareRecord& wanted);

std::string print_record(const PrepareRecord& record);
// Throws Error when the folder has no record, or one that cannot be read.
PrepareRecord load_record(const fs::path& folder);

// "name=path" of data.validation_text.
struct NamedText {
  std::string name;
  std::string path;
};
std::vector<NamedText> named_texts(const config::DataSection& data);

}  // namespace thinwire::data
