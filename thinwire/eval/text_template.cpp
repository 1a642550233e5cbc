#include "thinwire/eval/text_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/config/values.h"

namespace thinwire::eval {
namespace {

using Json = nlohmann::json;

// Where a sentence has its blank.
size_t blank(const std::string& text) {
  const size_t at = text.find('_');
  if (at == std::string::npos) throw Error(fmt::format("there is no blank (_) in '{}'", text));
  return at;
}

std::string before_last_word(const std::string& text) {
  const size_t space = text.rfind(' ');
  return space == std::string::npos ? "" : text.substr(0, space);
}

struct Edit {
  const char* name;
  std::string (*apply)(const std::string& text);
};

constexpr Edit kEdits[] = {
    {"strip", [](const std::string& text) { return strip(text); }},
    {"capitalize", [](const std::string& text) { return capitalize(text); }},
    {"before_blank", [](const std::string& text) { return text.substr(0, blank(text)); }},
    {"after_blank", [](const std::string& text) { return text.substr(blank(text) + 1); }},
    {"before_last_word", before_last_word},
    {"last_word", [](const std::string& text) { return text.substr(text.rfind(' ') + 1); }},
};

const Edit* find_edit(const std::string& name) {
  const auto* const found =
      std::ranges::find_if(kEdits, [&](const Edit& edit) { return edit.name == name; });
  return found == std::end(kEdits) ? nullptr : found;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool is_list(const std::string& key) { return key.ends_with("[]"); }

std::string text_of(const Json& value, const std::string& path) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return print_json(value);
  throw Error(fmt::format("{} must be a text, got {}", path, value.type_name()));
}

}  // namespace

TextTemplate::TextTemplate(const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError(fmt::format("\"{}\": {}", text, why));
  };
  int lists = 0;
  for (size_t at = 0; at < text.size();) {
    Part& part = parts_.emplace_back();
    const size_t open = std::min(text.find_first_of("{}", at), text.size());
    part.literal = text.substr(at, open - at);
    if (open == text.size()) break;
    const size_t close = text.find('}', open);
    if (text[open] == '}' || close == std::string::npos)
      refuse("a brace is not matched by another");
    part.edits = split(text.substr(open + 1, close - open - 1), '|');
    part.path = split(part.edits.front(), '.');
    part.edits.erase(part.edits.begin());
    if (std::ranges::find(part.path, "") != part.path.end()) refuse("a place names no field");
    for (const std::string& edit : part.edits) {
      if (find_edit(edit) != nullptr) continue;
      std::vector<std::string> names;
      for (const Edit& known : kEdits) names.emplace_back(known.name);
      refuse(fmt::format("there is no edit '{}'; there are {}", edit, fmt::join(names, ", ")));
    }
    lists += std::ranges::any_of(part.path, is_list) ? 1 : 0;
    if (lists > 1) refuse("more than one place names a list");
    at = close + 1;
  }
}

std::vector<std::string> TextTemplate::values(const Json& record, const Part& part) {
  std::vector<const Json*> at = {&record};
  std::string path;
  for (const std::string& key : part.path) {
    const std::string name = is_list(key) ? key.substr(0, key.size() - 2) : key;
    path += (path.empty() ? "" : ".") + name;
    std::vector<const Json*> next;
    for (const Json* value : at) {
      const auto found = value->is_object() ? value->find(name) : value->end();
      if (!value->is_object() || found == value->end()) {
        throw Error(fmt::format("there is no field '{}'", path));
      }
      if (!is_list(key)) {
        next.push_back(&*found);
        continue;
      }
      if (!found->is_array()) {
        throw Error(fmt::format("{} must be a list, got {}", path, found->type_name()));
      }
      for (const Json& element : *found) next.push_back(&element);
    }
    at = std::move(next);
  }
  std::vector<std::string> texts;
  for (const Json* value : at) {
    std::string text = text_of(*value, path);
    for (const std::string& edit : part.edits) text = find_edit(edit)->apply(text);
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<std::string> TextTemplate::fill(const Json& record) const {
  std::vector<std::string> texts = {""};
  for (const Part& part : parts_) {
    for (std::string& text : texts) text += part.literal;
    if (part.path.empty()) continue;
    const std::vector<std::string> found = values(record, part);
    if (found.size() != 1) {
      const std::string before = texts.front();
      texts.assign(found.size(), before);
    }
    for (size_t i = 0; i < texts.size(); ++i) texts[i] += found[found.size() == 1 ? 0 : i];
  }
  return texts;
}

}  // namespace thinwire::eval
