#include "thinwire/data/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "thinwire/base/json.h"
#include "thinwire/data/chat/chat_template.h"

namespace thinwire::data {
namespace {

using Json = nlohmann::ordered_json;
using Read = tl::expected<Record, std::string>;

constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

tl::unexpected<std::string> wrong(std::string why) { return tl::unexpected(std::move(why)); }

bool is_blank(std::string_view text) {
  return text.find_first_not_of(kWhiteSpace) == std::string_view::npos;
}

// The text of a field; otherwise what is wrong.
tl::expected<std::string, std::string> text_of(const Json& json, const std::string& name,
                                               std::string_view field) {
  const auto found = json.find(name);
  if (found == json.end()) return wrong(fmt::format("has no field \"{}\" ({})", name, field));
  if (!found->is_string()) {
    return wrong(fmt::format("has something other than text as \"{}\" ({})", name, field));
  }
  return found->get<std::string>();
}

Read read_prompt(const Json& json, const config::DataSection& data) {
  std::string answer_field = data.answer_field;
  if (answer_field.empty()) {
    if (json.contains("completion") && json.contains("answer")) {
      return wrong("has both \"completion\" and \"answer\"; data.answer_field says which is meant");
    }
    answer_field = json.contains("answer") ? "answer" : "completion";
  }
  const auto prompt = text_of(json, data.prompt_field, "data.prompt_field");
  if (!prompt) return wrong(prompt.error());
  const auto answer = text_of(json, answer_field, "data.answer_field");
  if (!answer) return wrong(answer.error());
  if (is_blank(*answer)) return wrong(fmt::format("has an empty \"{}\"", answer_field));
  return Record{*prompt + *answer, {{prompt->size(), prompt->size() + answer->size()}}};
}

// What is wrong with the messages of a chat; empty: nothing.
std::string fault_of(const Json& messages) {
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
                      !is_blank(content->get_ref<const std::string&>());
    if (!says && !message.contains("tool_calls")) {
      return fmt::format("has an empty answer, message {}", i);
    }
    answered = answered || message.value("weight", Json(1)) != 0;
  }
  return answered ? "" : "has no message of role \"assistant\" to learn";
}

Read read_chat(const Json& json, const config::DataSection& data, const ChatTemplate& chat) {
  const auto messages = json.find(data.messages_field);
  if (messages == json.end()) {
    return wrong(fmt::format("has no field \"{}\" (data.messages_field)", data.messages_field));
  }
  if (!messages->is_array()) {
    return wrong(
        fmt::format("has something other than a list of messages as \"{}\" "
                    "(data.messages_field)",
                    data.messages_field));
  }
  if (std::string fault = fault_of(*messages); !fault.empty()) return wrong(std::move(fault));
  return chat.render(*messages, json.value("tools", Json()));
}

}  // namespace

Read RecordReader::read(std::string_view line) const {
  const Json json = try_parse_json<Json>(line);
  if (json.is_discarded()) return wrong("is not JSON");
  if (!json.is_object()) return wrong("is not a JSON object");
  const bool prompts = data_.records == "prompts";
  const std::string& other = prompts ? data_.messages_field : data_.prompt_field;
  if (json.contains(other) && !json.contains(prompts ? data_.prompt_field : data_.messages_field)) {
    return wrong(
        fmt::format("has \"{}\", which data.records = \"{}\" does not read; a folder of "
                    "prepared data holds one kind of records",
                    other, data_.records));
  }
  Read record = prompts ? read_prompt(json, data_) : read_chat(json, data_, *chat_);
  if (record && record->text.find('\0') != std::string::npos) {
    return wrong("holds a NUL character: it is not text");
  }
  return record;
}

std::shared_ptr<const RecordReader> make_record_reader(const config::DataSection& data) {
  if (data.records == "text") return nullptr;
  std::shared_ptr<const ChatTemplate> chat;
  if (data.records == "chats") chat = find_chat_template(data);
  return std::make_shared<RecordReader>(data, std::move(chat));
}

}  // namespace thinwire::data
