// A part of a tokenizer.json, read with messages that name the file and the place in it.
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

  // `json` outlives this. where: the place in the file, e.g. "model.vocab".
  JsonPart(const Json& json, std::string file, std::string where)
      : json_(&json), file_(std::move(file)), where_(std::move(where)) {}

  // Throws Error "FILE: PLACE MESSAGE".
  template <typename... Values>
  [[noreturn]] void refuse(fmt::format_string<Values...> message, Values&&... values) const {
    throw Error(fmt::format("{}: {} {}", file_, where_.empty() ? "it" : where_,
                            fmt::format(message, std::forward<Values>(values)...)));
  }

  const Json& json() const { return *json_; }
  // The field of an object; nothing where it is absent or null. Each refuses what is no object.
  std::optional<JsonPart> find(const std::string& key) const;
  // The same of one that has to be there.
  JsonPart at(const std::string& key) const;
  // The elements of a list.
  std::vector<JsonPart> items() const;
  // Values; each refuses one of another type.
  std::string text() const;
  bool flag() const;
  double number() const;
  int32_t token() const;  // an id: 0 to kMaxToken

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
