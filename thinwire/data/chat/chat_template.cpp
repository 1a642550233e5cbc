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

constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kConfigFile = "tokenizer_config.json";
// What an imported model's checkpoint keeps of the model's files (docs/formats.md).
constexpr const char* kOriginFile = "hugging_face.json";

// A text file beside the vocabulary, or what an imported model's folder held under that name.
std::optional<std::string> text_beside(const fs::path& folder, const char* name) {
  if (fs::is_regular_file(folder / name)) return read_text_file(folder / name);
  if (!fs::is_regular_file(folder / kOriginFile)) return std::nullopt;
  const Json origin = try_parse_json<Json>(read_text_file(folder / kOriginFile));
  if (!origin.is_object() || !origin.contains(name) || !origin[name].is_string()) {
    return std::nullopt;
  }
  return origin[name].get<std::string>();
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

ChatTemplate::ChatTemplate(const std::string& source, std::string bos, std::string eos)
    : template_(source), bos_(std::move(bos)), eos_(std::move(eos)) {}

Rendered ChatTemplate::text_of(Json messages, const Json& tools, bool prompt) const {
  Json variables = {{"add_generation_prompt", prompt}, {"documents", nullptr}};
  variables["messages"] = std::move(messages);
  variables["tools"] = tools;
  // As transformers does, tokens that there are not are undefined.
  if (!bos_.empty()) variables["bos_token"] = bos_;
  if (!eos_.empty()) variables["eos_token"] = eos_;
  return template_.render(variables);
}

tl::expected<Record, std::string> ChatTemplate::render(const Json& messages,
                                                       const Json& tools) const {
  try {
    Rendered whole = text_of(messages, tools, false);
    if (!template_.marks_generation()) {
      Json before = Json::array();
      for (const Json& message : messages) {
        if (message["role"] == "assistant") {
          const std::string begin = text_of(before, tools, true).text;
          before.push_back(message);
          const std::string end = text_of(before, tools, false).text;
          if (!whole.text.starts_with(begin) || !whole.text.starts_with(end) ||
              end.size() < begin.size()) {
            return tl::unexpected(fmt::format(
                "cannot be divided into what the assistant says and the rest: its first {} "
                "messages are rendered otherwise by themselves than before the others; a template "
                "with {{% generation %}} around what the assistant says (data.chat_template) says "
                "what is to be learnt",
                before.size()));
          }
          whole.generated.push_back({begin.size(), end.size()});
        } else {
          before.push_back(message);
        }
      }
    }
    auto learnt = learnt_of(std::move(whole.generated), messages);
    if (!learnt) return tl::unexpected(learnt.error());
    return Record{std::move(whole.text), std::move(*learnt), true};
  } catch (const Error& error) {
    return tl::unexpected(fmt::format("cannot be rendered: {}", error.what()));
  }
}

std::shared_ptr<const ChatTemplate> find_chat_template(const config::DataSection& data) {
  const fs::path folder = fs::path(data.vocabulary_model).parent_path();
  Json config = Json::object();
  if (!data.vocabulary_model.empty()) {
    const std::string text = text_beside(folder, kConfigFile).value_or("{}");
    config = try_parse_json<Json>(text);
    if (!config.is_object()) {
      throw Error(fmt::format("{} is not a JSON object", (folder / kConfigFile).string()));
    }
  }
  std::string source;
  if (!data.chat_template.empty()) {
    source = read_text_file(data.chat_template);
  } else if (!data.vocabulary_model.empty()) {
    source = text_beside(folder, kTemplateFile).value_or(template_in(config));
  }
  if (source.empty()) {
    throw Error(fmt::format(
        "data.records = \"{}\" needs a chat template, and {} has none: neither {} nor "
        "chat_template in {}; set data.chat_template to a file with one",
        data.records,
        data.vocabulary_model.empty() ? "a vocabulary trained on the text" : folder.string(),
        kTemplateFile, kConfigFile));
  }
  return std::make_shared<ChatTemplate>(source, token_of(config, "bos_token"),
                                        token_of(config, "eos_token"));
}

std::vector<fs::path> chat_template_files(const config::DataSection& data) {
  std::vector<fs::path> files;
  if (!data.chat_template.empty()) files.emplace_back(data.chat_template);
  if (data.vocabulary_model.empty()) return files;
  for (const char* name : {kTemplateFile, kConfigFile, kOriginFile}) {
    const fs::path file = fs::path(data.vocabulary_model).parent_path() / name;
    if (fs::is_regular_file(file)) files.push_back(file);
  }
  return files;
}

}  // namespace thinwire::data
