#include "thinwire/convert/hf_fields.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <variant>

#include "thinwire/base/json.h"
#include "thinwire/config/values.h"

namespace thinwire::convert {

const HfJson* HfFields::find(const char* key) const {
  asked_.emplace(key);
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

bool HfFields::has(const char* key) const {
  asked_.emplace(key);
  return json_.contains(key);
}

std::optional<int64_t> HfFields::find_count(const char* key, int64_t max) const {
  const HfJson* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned() || value->get<uint64_t>() < 1 ||
      value->get<uint64_t>() > static_cast<uint64_t>(max)) {
    refuse("{}{} must be a whole number from 1 to {}, got {}", prefix_, key, max,
           print_json(*value));
  }
  return value->get<int64_t>();
}

int64_t HfFields::count(const char* key, int64_t max) const {
  const auto value = find_count(key, max);
  if (!value) refuse("{}{} is missing", prefix_, key);
  return *value;
}

double HfFields::number(const char* key, double absent) const {
  const HfJson* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    refuse("{}{} must be a number, got {}", prefix_, key, print_json(*value));
  }
  return value->get<double>();
}

bool HfFields::flag(const char* key) const {
  const HfJson* value = find(key);
  if (value == nullptr) return false;
  if (!value->is_boolean())
    refuse("{}{} must be true or false, got {}", prefix_, key, print_json(*value));
  return value->get<bool>();
}

std::string HfFields::text(const char* key, const std::string& absent) const {
  const HfJson* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_string())
    refuse("{}{} must be a string, got {}", prefix_, key, print_json(*value));
  return value->get<std::string>();
}

std::optional<HfFields> HfFields::object(const char* key) const {
  const HfJson* json = find(key);
  if (json == nullptr) return std::nullopt;
  if (!json->is_object()) refuse("{}{} must be an object", prefix_, key);
  return HfFields(path_, *json, fmt::format("{}{}.", prefix_, key));
}

void HfFields::refuse_others(std::span<const std::string_view> harmless) const {
  for (const auto& [name, value] : json_.items()) {
    if (value.is_null() || asked_.contains(name)) continue;
    if (std::ranges::find(harmless, name) != harmless.end()) continue;
    refuse(
        "{}{} = {} is not understood, so the model may compute something else; if it does not "
        "change what is computed, take it out",
        prefix_, name, print_json(value));
  }
}

void HfFields::check_range(const char* key, const config::Field& field) const {
  const auto* const* count = std::get_if<int64_t*>(&field.target);
  const double value =
      count != nullptr ? static_cast<double>(**count) : *std::get<double*>(field.target);
  if (config::in_range(field, value)) return;
  refuse("{}{} must be {}, got {}", prefix_, key, config::range_phrase(field), value);
}

}  // namespace thinwire::convert
