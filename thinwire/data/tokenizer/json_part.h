// A part of a tokenizer.json. Error messages name the file and the place in it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"

namespace thinwire::data {

class JsonPart {
 public:
  using Json = nlohmann::json;

  // `json` must outlive this object. where: the place in the file, e.g. "model.vocab".
  JsonPart(const Json& json, std::string file, std::string where)
      : json_(&json), file_(std::move(file)), where_(std::move(where)) {}

  // Throws Error "FILE: PLACE MESSAGE".
  template <typename... Values>
  [[noreturn]] void refuse(fmt::format_string<Values...> message, Values&&... values) const {
    throw Error(fmt::format("{}: {} {}", file_, where_.empty() ? "it" : where_,
                            fmt::format(message, std::forward<Values>(values)...)));
  }

  const Json& json() const { return *json_; }
  // A field of an object; nothing if it is absent or null. Throws Error if this is not an object.
  std::optional<JsonPart> find(const std::string& key) const;
  // Like find(), but also throws Error if the field is absent or null.
  JsonPart at(const std::string& key) const;
  // The elements of a list. Throws Error if this is not a list.
  std::vector<JsonPart> items() const;
  // The value. Each throws Error if it has another type.
  std::string text() const;
  bool flag() const;
  double number() const;
  int32_t token() const;  // a token id: 0 to kMaxToken

  std::string text_at(const std::string& key) const { return at(key).text(); }
  std::string text_or(const std::string& key, std::string absent) const;
  bool flag_or(const std::string& key, bool absent) const;

  static constexpr int32_t kMaxToken = (1 << 24) - 1;

 private:
  const Json* json_;
  std::string file_;
  std::string where_;
};

}  // namespace thinwire::data
