// Number fields that a recipe may set to "auto" or leave out: a rule then chooses the number
// (method/automatic.h). Where no rule knows one, they have their section's default.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "thinwire/config/recipe.h"

namespace thinwire::config {

inline constexpr std::string_view kAuto = "auto";

// Their names, "table.field".
std::span<const std::string_view> automatic_fields();

bool is_automatic(std::string_view field);

// Whether the recipe leaves the field to its rule.
bool is_open(const Recipe& recipe, std::string_view field);

// The number of such a field; none if the recipe was read without its table.
std::optional<double> number_of(Recipe& recipe, std::string_view field);
// Sets it; a field that counts takes the whole part.
void set_number(Recipe& recipe, std::string_view field, double number);

// Takes the numbers that the recipe leaves open from another one.
void take_open_numbers(Recipe& recipe, Recipe from);

}  // namespace thinwire::config
