// Typed reading of JSON objects for the files of a run. Private to events' .cpp files, since it
// includes the JSON library.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace thinwire::events {

using Json = nlohmann::ordered_json;

// Reads the fields of one JSON object. Every Error begins with `origin` (the file, and the line if
// it has lines) and names the key, the expected type and what is there instead.
class JsonFields {
 public:
  // Throws Error if `object` is not an object. Both arguments must outlive this.
  JsonFields(const Json& object, std::string_view origin);

  bool has(const std::string& key) const { return object_.contains(key); }
  // A number; null reads as NaN.
  double number(const std::string& key) const;
  int64_t integer(const std::string& key) const;
  std::string text(const std::string& key) const;
  const Json& object(const std::string& key) const;

 private:
  const Json& at(const std::string& key, const char* type) const;
  [[noreturn]] void wrong_type(const std::string& key, const char* type) const;

  const Json& object_;
  std::string_view origin_;
};

}  // namespace thinwire::events
