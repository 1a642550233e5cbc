#include "thinwire/data/tokenizer/json_part.h"

#include <cmath>

#include "thinwire/base/json.h"

namespace thinwire::data {
namespace {

constexpr size_t kShown = 60;  // bytes of a wrong value that a message shows

std::string shown(const JsonPart::Json& json) {
  std::string text = print_json(json, {.ascii = true});
  return text.size() > kShown ? fmt::format("{:.{}}...", text, kShown) : text;
}

}  // namespace

std::optional<JsonPart> JsonPart::find(const std::string& key) const {
  if (!json_->is_object()) refuse("must be an object, got {}", shown(*json_));
  const auto found = json_->find(key);
  if (found == json_->end() || found->is_null()) return std::nullopt;
  return JsonPart(*found, file_, fmt::format("{}{}{}", where_, where_.empty() ? "" : ".", key));
}

JsonPart JsonPart::at(const std::string& key) const {
  auto found = find(key);
  if (!found) refuse("has no {}", key);
  return *found;
}

std::vector<JsonPart> JsonPart::items() const {
  if (!json_->is_array()) refuse("must be a list, got {}", shown(*json_));
  std::vector<JsonPart> parts;
  parts.reserve(json_->size());
  for (size_t i = 0; i < json_->size(); ++i) {
    parts.emplace_back((*json_)[i], file_, fmt::format("{}[{}]", where_, i));
  }
  return parts;
}

std::string JsonPart::text() const {
  if (!json_->is_string()) refuse("must be a text, got {}", shown(*json_));
  return json_->get<std::string>();
}

bool JsonPart::flag() const {
  if (!json_->is_boolean()) refuse("must be true or false, got {}", shown(*json_));
  return json_->get<bool>();
}

double JsonPart::number() const {
  if (!json_->is_number() || !std::isfinite(json_->get<double>())) {
    refuse("must be a number, got {}", shown(*json_));
  }
  return json_->get<double>();
}

int32_t JsonPart::token() const {
  if (!json_->is_number_unsigned() || json_->get<uint64_t>() > uint64_t{kMaxToken}) {
    refuse("must be a whole number from 0 to {}, got {}", kMaxToken, shown(*json_));
  }
  return json_->get<int32_t>();
}

std::string JsonPart::text_or(const std::string& key, std::string absent) const {
  const auto found = find(key);
  return found ? found->text() : std::move(absent);
}

bool JsonPart::flag_or(const std::string& key, bool absent) const {
  const auto found = find(key);
  return found ? found->flag() : absent;
}

}  // namespace thinwire::data
