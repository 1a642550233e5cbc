#include "thinwire/data/labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "thinwire/base/json.h"
#include "thinwire/base/number_tokens.h"
#include "thinwire/data/records.h"

namespace thinwire::data {
namespace {

using Json = nlohmann::ordered_json;

tl::expected<int32_t, std::string> class_number(const Json& label, int64_t count) {
  if (!label.is_number_integer() || label < 0 || label >= count) {
    return wrong(fmt::format("has the class {}; classes are whole numbers from 0 to {}",
                             print_json(label), count - 1));
  }
  return label.get<int32_t>();
}

tl::expected<int32_t, std::string> class_of(const Json& label, const config::DataSection& data) {
  const int64_t count = data.labels.empty() ? kMostClasses : std::ssize(data.labels);
  if (!label.is_string()) return class_number(label, count);
  const auto name = std::ranges::find(data.labels, label.get<std::string>());
  if (name == data.labels.end()) {
    return wrong(
        data.labels.empty()
            ? fmt::format("has the class {}; data.labels gives classes names", print_json(label))
            : fmt::format("has the class {}, which is not in data.labels = {}", print_json(label),
                          fmt::join(data.labels, ", ")));
  }
  return static_cast<int32_t>(name - data.labels.begin());
}

tl::expected<float, std::string> number_of(const Json& label, const config::DataSection& data) {
  if (label.is_number()) {
    const float number = label.get<float>();
    if (std::isfinite(number)) return number;
  }
  return wrong(fmt::format("has {} as \"{}\" (data.label_field), which must be a number",
                           print_json(label), data.label_field));
}

}  // namespace

tl::expected<Record, std::string> read_labelled(const Json& json, const config::DataSection& data) {
  const auto text = text_of(json, data.text_field, "data.text_field");
  if (!text) return wrong(text.error());
  if (is_blank_text(*text)) return wrong(fmt::format("has an empty \"{}\"", data.text_field));
  const auto label = json.find(data.label_field);
  if (label == json.end()) {
    return wrong(fmt::format("has no field \"{}\" (data.label_field)", data.label_field));
  }
  Record record;
  record.text = *text;
  if (data.records == config::RecordKind::kNumbers) {
    const auto number = number_of(*label, data);
    if (!number) return wrong(number.error());
    const auto tokens = tokens_of_number(*number);
    record.target.assign(tokens.begin(), tokens.end());
  } else {
    const auto number = class_of(*label, data);
    if (!number) return wrong(number.error());
    record.target = {*number};
  }
  const auto pair = json.find(data.pair_field);
  if (pair == json.end() || pair->is_null()) return record;
  const auto second = text_of(json, data.pair_field, "data.pair_field");
  if (!second) return wrong(second.error());
  if (is_blank_text(*second)) return wrong(fmt::format("has an empty \"{}\"", data.pair_field));
  record.second = record.text.size();
  record.text += *second;
  return record;
}

std::vector<int32_t> encode_classified(const Vocabulary& vocabulary, std::string_view text,
                                       const std::optional<std::string>& second) {
  return classified_tokens(vocabulary, text, second,
                           [&](std::string_view part, std::vector<int32_t>& tokens) {
                             const std::vector<int32_t> own = vocabulary.encode(part);
                             tokens.insert(tokens.end(), own.begin(), own.end());
                           });
}

}  // namespace thinwire::data
