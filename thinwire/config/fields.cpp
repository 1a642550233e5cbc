#include "thinwire/config/fields.h"

#include <fmt/format.h>

#include <utility>

namespace thinwire::config {
namespace {

double limit(int64_t value) { return value == kNoLimit ? kInfinity : static_cast<double>(value); }

Field field_of(const char* name, FieldTarget target, const char* unit, const char* sentence) {
  Field field;
  field.name = name;
  field.target = target;
  field.unit = unit;
  field.sentence = sentence;
  return field;
}

}  // namespace

std::string key_of(std::string_view table, const Field& field) {
  return fmt::format("{}.{}", table, field.name);
}

void Fields::integer(const char* name, int64_t& value, const char* unit, int64_t min, int64_t max,
                     const char* sentence) {
  Field field = field_of(name, &value, unit, sentence);
  field.min = limit(min);
  field.max = limit(max);
  fields_.push_back(std::move(field));
}

void Fields::number(const char* name, double& value, const char* unit, double min, double max,
                    const char* sentence) {
  Field field = field_of(name, &value, unit, sentence);
  field.min = min;
  field.max = max;
  fields_.push_back(std::move(field));
}

void Fields::number_above(const char* name, double& value, const char* unit, double min, double max,
                          const char* sentence) {
  number(name, value, unit, min, max, sentence);
  fields_.back().min_open = true;
}

void Fields::flag(const char* name, bool& value, const char* sentence) {
  fields_.push_back(field_of(name, &value, "", sentence));
}

void Fields::text(const char* name, std::string& value, const char* sentence) {
  fields_.push_back(field_of(name, &value, "", sentence));
}

void Fields::named(const char* name, NamedTarget value, StringList choices, const char* sentence) {
  fields_.push_back(field_of(name, value, "", sentence));
  fields_.back().choices = std::move(choices);
}

void Fields::list(const char* name, StringList& value, const char* sentence) {
  fields_.push_back(field_of(name, &value, "", sentence));
}

}  // namespace thinwire::config
