#include <fmt/format.h>

#include "thinwire/data/records.h"

namespace thinwire::data {

using Json = nlohmann::ordered_json;

tl::unexpected<std::string> wrong(std::string why) { return tl::unexpected(std::move(why)); }

bool is_blank_text(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

tl::expected<std::string, std::string> text_of(const Json& json, const std::string& name,
                                               std::string_view field) {
  const std::string setting = field.empty() ? "" : fmt::format(" ({})", field);
  const auto found = json.find(name);
  if (found == json.end()) return wrong(fmt::format("has no field \"{}\"{}", name, setting));
  if (!found->is_string()) {
    return wrong(fmt::format("has something other than text as \"{}\"{}", name, setting));
  }
  return found->get<std::string>();
}

std::string fault_of_chat(const Json& messages) {
  bool answered = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (!message.is_object()) return fmt::format("has a message {} that is no object", i);
    for (const char* part : {"role", "content"}) {
      const auto found = message.find(part);
      const bool called = part == std::string_view("content") && message.contains("tool_calls");
      if (called && (found == message.end() || found->is_null())) continue;
      if (found == message.end()) return fmt::format("has a message {} without \"{}\"", i, part);
      if (!found->is_string()) {
        return fmt::format("has a message {} whose \"{}\" is not text", i, part);
      }
    }
    const auto weight = message.find("weight");
    if (weight != message.end() && *weight != 0 && *weight != 1) {
      return fmt::format("has a message {} whose \"weight\" is neither 0 nor 1", i);
    }
    if (message["role"] != "assistant") continue;
    const auto content = message.find("content");
    const bool says = content != message.end() && content->is_string() &&
                      !is_blank_text(content->get_ref<const std::string&>());
    if (!says && !message.contains("tool_calls")) {
      return fmt::format("has an empty answer, message {}", i);
    }
    answered = answered || message.value("weight", Json(1)) != 0;
  }
  return answered ? "" : "has no message of role \"assistant\" to learn";
}

}  // namespace thinwire::data
