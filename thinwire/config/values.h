// Values of recipe fields: assigning what a user wrote, with checks, and printing it again.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "thinwire/config/fields.h"

namespace thinwire::config {

// A value of a type that no field accepts, e.g. a date; holds a description of it.
struct Unusable {
  std::string kind;
};

// A value as it was written, before its field's type is considered.
using Value = std::variant<bool, int64_t, double, std::string, StringList, Unusable>;

// Sets the field. Numbers may be integers or strings such as "100M"; integers may be floats without
// a fraction. Throws UsageError "[table] field must be ..., got ..." for a wrong type, a value out
// of range or an unknown choice; the field is then unchanged.
void assign(const Field& field, std::string_view table, const Value& value);

// What to ask about a whole number with a point where many countries separate thousands: "is it
// 1000 or 1? …" of "1.000"; empty for other texts.
std::string thousands_question(std::string_view text);

// The field's current value as TOML.
std::string print_value(const Field& field);
// Like print_value, but with texts unquoted, as people write them on the command line.
std::string plain_value(const Field& field);
std::string print_string(std::string_view text);

// "integer", "number", "true or false", "text", "list of texts".
std::string type_name(const Field& field);
// ">= 1", "> 0, <= 1"; empty when there is no limit.
std::string range_phrase(const Field& field);
// Whether a number field may have the value; never for infinity and NaN.
bool in_range(const Field& field, double value);

// The name with the smallest edit distance, if it is close enough to be a misspelling; else empty.
std::string nearest_name(std::string_view name, std::span<const std::string> known);

}  // namespace thinwire::config
