#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "thinwire/data/chat/chat_template.h"
#include "thinwire/data/records.h"

namespace thinwire::data {
namespace {

using Json = nlohmann::ordered_json;
using Read = tl::expected<Record, std::string>;

constexpr const char* kChosen = "chosen";
constexpr const char* kRejected = "rejected";

Read joined(const Record& chosen, const Record& rejected) {
  Record pair = chosen;
  pair.rejected = chosen.text.size();
  pair.text += rejected.text;
  for (const TextPart& part : rejected.learnt) {
    pair.learnt.push_back({pair.rejected + part.begin, pair.rejected + part.end});
  }
  return pair;
}

Read read_texts(const Json& json, const config::DataSection& data) {
  const auto prompt = text_of(json, data.prompt_field, "data.prompt_field");
  if (!prompt) return wrong(prompt.error());
  Record answers[2];
  for (size_t i = 0; i < 2; ++i) {
    const char* const field = i == 0 ? kChosen : kRejected;
    const auto answer = text_of(json, field, "");
    if (!answer) return wrong(answer.error());
    if (is_blank_text(*answer)) return wrong(fmt::format("has an empty \"{}\"", field));
    answers[i].text = *prompt + *answer;
    answers[i].learnt = {{prompt->size(), answers[i].text.size()}};
  }
  return joined(answers[0], answers[1]);
}

// Prompt and answer as one chat, of which only the answer is learnt.
Json chat_of(Json prompt, const Json& answer) {
  for (Json& message : prompt) {
    if (message.is_object()) message["weight"] = 0;
  }
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  return prompt;
}

// Takes off both answers the messages that they begin with alike; the last of each stays.
Json take_common(Json& chosen, Json& rejected) {
  const size_t shorter = std::min(chosen.size(), rejected.size());
  size_t common = 0;
  while (common + 1 < shorter && chosen[common] == rejected[common]) ++common;
  Json prompt = Json::array();
  for (size_t i = 0; i < common; ++i) prompt.push_back(chosen[i]);
  const auto end = static_cast<std::ptrdiff_t>(common);
  chosen.erase(chosen.begin(), chosen.begin() + end);
  rejected.erase(rejected.begin(), rejected.begin() + end);
  return prompt;
}

Read read_chats(const Json& json, const config::DataSection& data, const PairTemplate& with) {
  if (with.chat == nullptr) return wrong("holds chats: " + with.fault);
  Json chosen = json[kChosen], rejected = json[kRejected];
  const auto given = json.find(data.prompt_field);
  if (given != json.end() && !given->is_array()) {
    return wrong(
        fmt::format("has lists of messages as \"chosen\" and \"rejected\", but something else as "
                    "\"{}\" (data.prompt_field)",
                    data.prompt_field));
  }
  const Json prompt = given == json.end() ? take_common(chosen, rejected) : *given;
  Record answers[2];
  for (size_t i = 0; i < 2; ++i) {
    const Json messages = chat_of(prompt, i == 0 ? chosen : rejected);
    std::string fault = fault_of_chat(messages);
    auto record = fault.empty() ? with.chat->render(messages, json.value("tools", Json()))
                                : Read(wrong(std::move(fault)));
    if (!record) {
      return wrong(fmt::format("{} (in \"{}\")", record.error(), i == 0 ? kChosen : kRejected));
    }
    answers[i] = std::move(*record);
  }
  return joined(answers[0], answers[1]);
}

}  // namespace

Read read_preference(const Json& json, const config::DataSection& data, const PairTemplate& with) {
  for (const char* field : {kChosen, kRejected}) {
    if (!json.contains(field)) return wrong(fmt::format("has no field \"{}\"", field));
  }
  if (json[kChosen] == json[kRejected]) {
    return wrong("has the same answer as \"chosen\" and as \"rejected\"");
  }
  const bool chats = json[kChosen].is_array();
  if (chats != json[kRejected].is_array()) {
    return wrong("has a list of messages as only one of \"chosen\" and \"rejected\"");
  }
  return chats ? read_chats(json, data, with) : read_texts(json, data);
}

}  // namespace thinwire::data
