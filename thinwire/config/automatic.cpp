#include "thinwire/config/automatic.h"

#include <algorithm>
#include <array>
#include <string>

namespace thinwire::config {
namespace {

constexpr std::array<std::string_view, 5> kFields = {"optim.lr", "adamw.beta1", "adamw.beta2",
                                                     "muon.momentum", "schedule.warmup"};

std::optional<Field> find_field(Recipe& recipe, std::string_view name) {
  for (const auto& [table, section] : recipe.sections()) {
    if (!name.starts_with(table)) continue;
    Fields fields;
    section->describe(fields);
    for (const Field& field : fields.all()) {
      if (key_of(table, field) == name) return field;
    }
  }
  return std::nullopt;
}

}  // namespace

std::span<const std::string_view> automatic_fields() { return kFields; }

bool is_automatic(std::string_view field) { return std::ranges::count(kFields, field) > 0; }

bool is_open(const Recipe& recipe, std::string_view field) {
  return is_automatic(field) && !recipe.given.contains(std::string(field));
}

std::optional<double> number_of(Recipe& recipe, std::string_view field) {
  const std::optional<Field> found = find_field(recipe, field);
  if (!found) return std::nullopt;
  if (const auto* const* count = std::get_if<int64_t*>(&found->target)) {
    return static_cast<double>(**count);
  }
  return *std::get<double*>(found->target);
}

void set_number(Recipe& recipe, std::string_view field, double number) {
  const std::optional<Field> found = find_field(recipe, field);
  if (!found) return;
  if (int64_t* const* count = std::get_if<int64_t*>(&found->target)) {
    **count = static_cast<int64_t>(number);
  } else {
    *std::get<double*>(found->target) = number;
  }
}

void take_open_numbers(Recipe& recipe, Recipe from) {
  for (const std::string_view field : kFields) {
    const std::optional<double> number = number_of(from, field);
    if (number && is_open(recipe, field)) set_number(recipe, field, *number);
  }
}

}  // namespace thinwire::config
