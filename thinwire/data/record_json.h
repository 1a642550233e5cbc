// Reads the fields of records from JSON lines. Private to this folder's .cpp files, since it
// includes the JSON library.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace thinwire::data {

tl::unexpected<std::string> wrong(std::string why);

bool is_blank_text(std::string_view text);

// The text of a field; otherwise what is wrong. field: the recipe field that names it, or empty.
tl::expected<std::string, std::string> text_of(const nlohmann::ordered_json& json,
                                               const std::string& name, std::string_view field);

// What is wrong with the messages of a chat; empty: nothing.
std::string fault_of_chat(const nlohmann::ordered_json& messages);

}  // namespace thinwire::data
