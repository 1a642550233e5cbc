// Texts with a class, for encoders:
//   {"text": "A fine film.", "label": 1}
//   {"text": "It rains.", "text_pair": "The sun shines.", "label": "contradiction"}
// A class is its number, from 0 on, or its name in data.labels.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tl/expected.hpp>

#include "thinwire/config/data_section.h"
#include "thinwire/data/records.h"

namespace thinwire::data {

// The most classes: each is a token of any vocabulary that a shard keeps in two bytes.
inline constexpr int64_t kMostClasses = 65536;

// Otherwise what is wrong with the line.
tl::expected<Record, std::string> read_labelled(const nlohmann::ordered_json& json,
                                                const config::DataSection& data);

}  // namespace thinwire::data
