#include "thinwire/data/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/data/chat/chat_template.h"
#include "thinwire/data/labels.h"

namespace thinwire::data {
namespace {

using config::RecordKind;
using Json = nlohmann::ordered_json;
using Read = tl::expected<Record, std::string>;

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
  if (is_blank_text(*answer)) return wrong(fmt::format("has an empty \"{}\"", answer_field));
  return Record{*prompt + *answer, {{prompt->size(), prompt->size() + answer->size()}}};
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
  if (std::string fault = fault_of_chat(*messages); !fault.empty()) return wrong(std::move(fault));
  return chat.render(*messages, json.value("tools", Json()));
}

Read without_nul(Read record) {
  if (record && record->text.find('\0') != std::string::npos) {
    return wrong("holds a NUL character: it is not text");
  }
  return record;
}

}  // namespace

Read RecordReader::read(std::string_view line) const {
  const Json json = try_parse_json<Json>(line);
  if (json.is_discarded()) return wrong("is " + json_fault(line, "not JSON"));
  if (!json.is_object()) return wrong("is not a JSON object");
  if (data_.records == RecordKind::kPreferences)
    return without_nul(read_preference(json, data_, {chat_.get(), chat_fault_}));
  if (is_labelled(data_.records)) return without_nul(read_labelled(json, data_));
  const bool prompts = data_.records == RecordKind::kPrompts;
  const std::string& other = prompts ? data_.messages_field : data_.prompt_field;
  if (json.contains(other) && !json.contains(prompts ? data_.prompt_field : data_.messages_field)) {
    return wrong(
        fmt::format("has \"{}\", which data.records = \"{}\" does not read; a folder of "
                    "prepared data holds one kind of records",
                    other, name_of(data_.records)));
  }
  return without_nul(prompts ? read_prompt(json, data_) : read_chat(json, data_, *chat_));
}

std::shared_ptr<const RecordReader> make_record_reader(const config::DataSection& data) {
  if (data.records == RecordKind::kText) return nullptr;
  std::shared_ptr<const ChatTemplate> chat;
  std::string fault;
  try {
    if (has_chats(data.records)) chat = find_chat_template(data);
  } catch (const Error& error) {
    if (data.records == RecordKind::kChats) throw;
    fault = error.what();
  }
  return std::make_shared<RecordReader>(data, std::move(chat), std::move(fault));
}

}  // namespace thinwire::data
