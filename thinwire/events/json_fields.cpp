#include <fmt/format.h>

#include <limits>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/events/run_log.h"

namespace thinwire::events {
namespace {

// A value, shortened for a message.
std::string shortened(const Json& value) {
  constexpr size_t kLongest = 40;
  std::string text = print_json(value, {.ascii = true, .replace_invalid = true});
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace

JsonFields::JsonFields(const Json& object, std::string_view origin)
    : object_(object), origin_(origin) {
  if (!object.is_object()) {
    throw Error(fmt::format("{}: must be a JSON object, is {}", origin, shortened(object)));
  }
}

const Json& JsonFields::at(const std::string& key, const char* type) const {
  const auto found = object_.find(key);
  if (found == object_.end()) {
    throw Error(fmt::format("{}: \"{}\" is missing; it must be {}", origin_, key, type));
  }
  return *found;
}

void JsonFields::wrong_type(const std::string& key, const char* type) const {
  throw Error(
      fmt::format("{}: \"{}\" must be {}, is {}", origin_, key, type, shortened(object_[key])));
}

double JsonFields::number(const std::string& key) const {
  const Json& value = at(key, "a number or null");
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) wrong_type(key, "a number or null");
  return value.get<double>();
}

int64_t JsonFields::integer(const std::string& key) const {
  const Json& value = at(key, "an integer");
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (!fits) wrong_type(key, "an integer");
  return value.get<int64_t>();
}

std::string JsonFields::text(const std::string& key) const {
  const Json& value = at(key, "a string");
  if (!value.is_string()) wrong_type(key, "a string");
  return value.get<std::string>();
}

const Json& JsonFields::object(const std::string& key) const {
  const Json& value = at(key, "an object");
  if (!value.is_object()) wrong_type(key, "an object");
  return value;
}

}  // namespace thinwire::events
