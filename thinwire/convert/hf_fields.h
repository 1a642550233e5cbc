// Reads the fields of a Hugging Face config.json, with error messages.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/config/fields.h"

namespace thinwire::convert {

using HfJson = nlohmann::ordered_json;

// One JSON object of the file; null counts as absent, since transformers writes it so. A field that
// no code has asked for is one that Thinwire does not understand (refuse_others). `path` and `json`
// must outlive it. One thread uses it.
class HfFields {
 public:
  // prefix: what errors put before the names of fields, "rope_scaling.".
  HfFields(const fs::path& path, const HfJson& json, std::string prefix = "")
      : path_(path), json_(json), prefix_(std::move(prefix)) {}

  // Throws Error that names the file.
  template <typename... Values>
  [[noreturn]] void refuse(fmt::format_string<Values...> message, Values&&... values) const {
    throw Error(fmt::format("cannot import {}: {}", path_.string(),
                            fmt::format(message, std::forward<Values>(values)...)));
  }

  const HfJson* find(const char* key) const;
  // Whether the field is present, even as null.
  bool has(const char* key) const;
  // Each refuses a value of the wrong type; counts must be from 1 to max.
  std::optional<int64_t> find_count(const char* key, int64_t max) const;
  int64_t count(const char* key, int64_t max) const;
  double number(const char* key, double absent) const;
  bool flag(const char* key) const;
  std::string text(const char* key, const std::string& absent) const;
  // The object with this name, if there is one.
  std::optional<HfFields> object(const char* key) const;

  // Refuses the first field with a value that has not been asked for and is not in `harmless`.
  void refuse_others(std::span<const std::string_view> harmless) const;

  // Refuses a value that the field of [model] could not have.
  void check_range(const char* key, const config::Field& field) const;

 private:
  const fs::path& path_;
  const HfJson& json_;
  const std::string prefix_;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace thinwire::convert
