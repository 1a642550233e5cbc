#include "thinwire/config/fields.h"

#include <utility>

namespace thinwire::config {
namespace {

double limit(int64_t value) { return value == kNoLimit ? kInfinity : static_cast<double>(value); }

Field field_of(std::string name, FieldTarget target, std::string unit, std::string sentence) {
  Field field;
  field.name = std::move(name);
  field.target = target;
  field.unit = std::move(unit);
  field.sentence = std::move(sentence);
  return field;
}

}  // namespace

void Fields::integer(std::string name, int64_t& value, std::string unit, int64_t min, int64_t max,
                     std::string sentence) {
  Field field = field_of(std::move(name), &value, std::move(unit), std::move(sentence));
  field.min = limit(min);
  field.max = limit(max);
  fields_.push_back(std::move(field));
}

void Fields::number(std::string name, double& value, std::string unit, double min, double max,
                    std::string sentence) {
  Field field = field_of(std::move(name), &value, std::move(unit), std::move(sentence));
  field.min = min;
  field.max = max;
  fields_.push_back(std::move(field));
}

void Fields::number_above(std::string name, double& value, std::string unit, double min, double max,
                          std::string sentence) {
  number(std::move(name), value, std::move(unit), min, max, std::move(sentence));
  fields_.back().min_open = true;
}

void Fields::flag(std::string name, bool& value, std::string sentence) {
  fields_.push_back(field_of(std::move(name), &value, "", std::move(sentence)));
}

void Fields::text(std::string name, std::string& value, std::string sentence) {
  fields_.push_back(field_of(std::move(name), &value, "", std::move(sentence)));
}

void Fields::choice(std::string name, std::string& value, StringList choices,
                    std::string sentence) {
  fields_.push_back(field_of(std::move(name), &value, "", std::move(sentence)));
  fields_.back().choices = std::move(choices);
}

void Fields::named(std::string name, NamedTarget value, StringList choices, std::string sentence) {
  fields_.push_back(field_of(std::move(name), value, "", std::move(sentence)));
  fields_.back().choices = std::move(choices);
}

void Fields::list(std::string name, StringList& value, std::string sentence) {
  fields_.push_back(field_of(std::move(name), &value, "", std::move(sentence)));
}

}  // namespace thinwire::config
