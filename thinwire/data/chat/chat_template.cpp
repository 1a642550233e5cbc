#include "thinwire/data/chat/chat_template.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"

namespace thinwire::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kTokensFile = "special_tokens_map.json";
constexpr const char* kLoneFile = "chat_template.json";
// What an imported model's checkpoint keeps of the model's files (docs/formats.md).
constexpr const char* kOriginFile = "hugging_face.json";

Json parse_object(const std::string& text, const std::string& file) {
  Json json = try_parse_json<Json>(text);
  if (!json.is_object()) throw Error(fmt::format("{} is {}", file, json_fault(text)));
  return json;
}

// The files beside a vocabulary that say something about chats. What an imported model's folder
// held under a name counts before a tokenizer_config.json that the import wrote.
std::map<std::string, std::string> files_beside(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const char* name : {kChatTemplateFile, kConfigFile, kTokensFile, kLoneFile}) {
    const fs::path file = folder / name;
    if (is_file(file)) files[name] = read_text_file(file);
  }
  if (!is_file(folder / kOriginFile)) return files;
  const Json origin = try_parse_json<Json>(read_text_file(folder / kOriginFile));
  if (!origin.is_object()) return files;
  for (const char* name : {kChatTemplateFile, kConfigFile, kTokensFile, kLoneFile}) {
    if (!origin.contains(name) || !origin[name].is_string()) continue;
    if (name == kConfigFile || !files.contains(name)) files[name] = origin[name];
  }
  return files;
}

// "<s>", or {"content": "<s>", ...}.
std::string token_of(const Json& config, const char* key) {
  Json value = config.value(key, Json());
  if (value.is_object()) value = value.value("content", Json());
  return value.is_string() ? value.get<std::string>() : std::string();
}

// The template itself, or of a list of named ones that named default; empty: none.
std::string template_in(const Json& config) {
  const Json given = config.value("chat_template", Json());
  if (given.is_string()) return given.get<std::string>();
  if (!given.is_array()) return {};
  for (const Json& one : given) {
    if (one.is_object() && one.value("name", Json()) == "default" && one.contains("template") &&
        one["template"].is_string()) {
      return one["template"].get<std::string>();
    }
  }
  return {};
}

// Stands for an answer whose place is sought.
constexpr const char* kMark = "\xEE\x80\x80 answer \xEE\x80\x81";  // between U+E000 and U+E001

// What is before the only mark of a text and behind it.
std::optional<std::pair<std::string, std::string>> cut_at_mark(const std::string& text) {
  const std::string_view mark = kMark;
  const size_t at = text.find(mark);
  if (at == std::string::npos || text.find(mark, at + 1) != std::string::npos) return std::nullopt;
  return std::pair(text.substr(0, at), text.substr(at + mark.size()));
}

// Leaves out assistant messages that are not to be learnt.
tl::expected<std::vector<TextPart>, std::string> learnt_of(std::vector<TextPart> marked,
                                                           const Json& messages) {
  std::vector<const Json*> answers;
  for (const Json& message : messages) {
    if (message["role"] == "assistant") answers.push_back(&message);
  }
  std::vector<TextPart> learnt;
  bool all = true;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i]->value("weight", Json(1)) == 0) {
      all = false;
    } else if (i < marked.size()) {
      learnt.push_back(marked[i]);
    }
  }
  if (all) return marked;
  if (marked.size() != answers.size()) {
    return tl::unexpected(
        fmt::format("has {} answers, some with \"weight\": 0, but the chat template marks {}",
                    answers.size(), marked.size()));
  }
  return learnt;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, std::string bos, std::string eos)
    : source_(std::move(source)), template_(source_), bos_(std::move(bos)), eos_(std::move(eos)) {}

Rendered ChatTemplate::text_of(Json messages, const Json& tools, bool prompt) const {
  Json variables = {{"add_generation_prompt", prompt}, {"documents", nullptr}};
  variables["messages"] = std::move(messages);
  variables["tools"] = tools;
  // As transformers does, tokens that there are not are undefined.
  if (!bos_.empty()) variables["bos_token"] = bos_;
  if (!eos_.empty()) variables["eos_token"] = eos_;
  return template_.render(variables);
}

std::optional<std::vector<TextPart>> ChatTemplate::added_parts(const Json& messages,
                                                               const Json& tools,
                                                               const std::string& whole) const {
  std::vector<TextPart> parts;
  Json before = Json::array();
  for (const Json& message : messages) {
    if (message["role"] != "assistant") {
      before.push_back(message);
      continue;
    }
    const std::string begin = text_of(before, tools, true).text;
    before.push_back(message);
    const std::string end = text_of(before, tools, false).text;
    if (!whole.starts_with(begin) || !whole.starts_with(end) || end.size() < begin.size()) {
      return std::nullopt;
    }
    parts.push_back({begin.size(), end.size()});
  }
  return parts;
}

std::optional<std::string> ChatTemplate::addition(const Json& messages, const Json& tools) const {
  for (const bool with_system : {true, false}) {
    Json before = Json::array();
    for (const Json& message : messages) {
      if (with_system || message["role"] != "system") before.push_back(message);
    }
    const std::string whole = text_of(before, tools, false).text;
    before.erase(before.size() - 1);
    const std::string prompt = text_of(before, tools, true).text;
    if (whole.starts_with(prompt)) return whole.substr(prompt.size());
  }
  return std::nullopt;
}

std::optional<Rendered> ChatTemplate::as_prompted(const Json& messages, const Json& tools) const {
  std::vector<size_t> answers;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i]["role"] == "assistant") answers.push_back(i);
  }
  const auto first = [&](size_t count) {
    return Json(
        Json::array_t(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count)));
  };
  const Json before = first(answers.back());
  Rendered result = text_of(before, tools, true);
  const auto last = addition(first(answers.back() + 1), tools);
  if (!last) return std::nullopt;
  for (const size_t answer : answers) {
    if (answer == answers.back()) break;
    // The answer's place is where another one stands in a rendering that is otherwise the same.
    Json marked = before, alone = first(answer + 1);
    marked[answer]["content"] = alone[answer]["content"] = kMark;
    const auto around = cut_at_mark(text_of(marked, tools, true).text);
    const auto added = addition(alone, tools);
    const auto own = added ? cut_at_mark(*added) : std::nullopt;
    const auto as_it_is = addition(first(answer + 1), tools);
    if (!around || !own || !as_it_is) return std::nullopt;
    const auto [left, right] = *around;
    const auto [head, tail] = *own;
    const bool fits = result.text.starts_with(left) && result.text.ends_with(right) &&
                      result.text.size() >= left.size() + right.size();
    if (!fits || !left.ends_with(head) || !right.starts_with(tail)) return std::nullopt;
    const size_t begin = left.size() - head.size();
    const size_t end = result.text.size() - right.size() + tail.size();
    if (result.text.substr(begin, end - begin) != *as_it_is) return std::nullopt;
    result.generated.push_back({begin, end});
  }
  result.generated.push_back({result.text.size(), result.text.size() + last->size()});
  result.text += *last;
  return result;
}

tl::expected<Record, std::string> ChatTemplate::render(const Json& messages,
                                                       const Json& tools) const {
  try {
    Rendered whole = text_of(messages, tools, false);
    if (!template_.marks_generation()) {
      if (auto parts = added_parts(messages, tools, whole.text)) {
        whole.generated = std::move(*parts);
      } else if (auto prompted = as_prompted(messages, tools)) {
        whole = std::move(*prompted);
      } else {
        return tl::unexpected(std::string(
            "cannot be divided into what the assistant says and the rest: earlier messages are "
            "rendered otherwise by themselves than before the others; a template with "
            "{% generation %} around what the assistant says (data.chat_template) says what is to "
            "be learnt"));
      }
    }
    auto learnt = learnt_of(std::move(whole.generated), messages);
    if (!learnt) return tl::unexpected(learnt.error());
    return Record{std::move(whole.text), std::move(*learnt), true};
  } catch (const Error& error) {
    return tl::unexpected(fmt::format("cannot be rendered: {}", error.what()));
  }
}

tl::expected<std::string, std::string> ChatTemplate::prompt(const Json& messages) const {
  try {
    return text_of(messages, nullptr, true).text;
  } catch (const Error& error) {
    return tl::unexpected(fmt::format("cannot be rendered: {}", error.what()));
  }
}

std::string ChatTemplate::behind_answer() const {
  constexpr const char* kAnswer = "An answer.";
  const Json chat = {{{"role", "user"}, {"content", "A question?"}},
                     {{"role", "assistant"}, {"content", kAnswer}}};
  try {
    const std::string text = text_of(chat, nullptr, false).text;
    const size_t answer = text.rfind(kAnswer);
    if (answer == std::string::npos) return {};
    const std::string end = text.substr(answer + std::string_view(kAnswer).size());
    const size_t last = end.find_last_not_of(" \t\r\n");
    return last == std::string::npos ? end : end.substr(0, last + 1);
  } catch (const Error&) {  // it refuses chats such as this one
    return {};
  }
}

std::shared_ptr<const ChatTemplate> chat_template_among(
    const std::map<std::string, std::string>& files) {
  const auto object = [&](const char* name) {
    const auto found = files.find(name);
    return found == files.end() ? Json::object() : parse_object(found->second, name);
  };
  Json config = object(kTokensFile);
  config.update(object(kConfigFile));
  const auto own = files.find(kChatTemplateFile);
  std::string source = own == files.end() ? template_in(config) : own->second;
  if (source.empty()) source = template_in(object(kLoneFile));
  if (source.empty()) return nullptr;
  return std::make_shared<ChatTemplate>(std::move(source), token_of(config, "bos_token"),
                                        token_of(config, "eos_token"));
}

std::shared_ptr<const ChatTemplate> find_chat_template(const config::DataSection& data) {
  const fs::path folder = fs::path(data.vocabulary_model).parent_path();
  std::map<std::string, std::string> files;
  if (!data.vocabulary_model.empty()) files = files_beside(folder);
  if (!data.chat_template.empty()) files[kChatTemplateFile] = read_text_file(data.chat_template);
  if (auto chat = chat_template_among(files)) return chat;
  throw Error(fmt::format(
      "data.records = \"{}\" needs a chat template, and {} has none: neither {} nor chat_template "
      "in {} or {}; set data.chat_template to a file with one",
      name_of(data.records),
      data.vocabulary_model.empty() ? "a vocabulary trained on the text" : folder.string(),
      kChatTemplateFile, kConfigFile, kLoneFile));
}

std::vector<fs::path> chat_template_files(const config::DataSection& data) {
  std::vector<fs::path> files;
  if (!data.chat_template.empty()) files.emplace_back(data.chat_template);
  if (data.vocabulary_model.empty()) return files;
  for (const char* name : {kChatTemplateFile, kConfigFile, kTokensFile, kLoneFile, kOriginFile}) {
    const fs::path file = fs::path(data.vocabulary_model).parent_path() / name;
    if (is_file(file)) files.push_back(file);
  }
  return files;
}

int32_t turn_end(const ChatTemplate& chat, const Vocabulary& vocabulary) {
  const auto message = [](const char* role, const char* content) {
    return Json{{"role", role}, {"content", content}};
  };
  constexpr std::string_view kAnswer = "Good evening";
  const Json user = message("user", "Hello");
  const Json answer = message("assistant", kAnswer.data());
  for (const Json& messages :
       {Json::array({user, answer}), Json::array({message("system", "Be kind"), user, answer})}) {
    const auto record = chat.render(messages, nullptr);
    if (!record || record->learnt.empty()) continue;
    const std::string learnt = record->text.substr(0, record->learnt.back().end);
    const size_t said = learnt.rfind(kAnswer);
    if (said == std::string::npos) continue;
    int32_t end = -1;
    for (const int32_t token : vocabulary.encode(learnt.substr(said + kAnswer.size()))) {
      if (vocabulary.is_added(token)) end = token;
    }
    return end;
  }
  return -1;
}

}  // namespace thinwire::data
