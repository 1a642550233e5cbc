#include "thinwire/config/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/config/automatic.h"

namespace thinwire::config {
namespace {

// Above this, doubles cannot represent every integer.
constexpr double kLargestExactInteger = 0x1.0p53;

std::string print_number(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string print_list(const StringList& list) {
  StringList quoted;
  for (const std::string& element : list) quoted.push_back(print_string(element));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

// Words that mean a choice although their spelling is closest to another choice, or to none.
struct Synonym {
  std::string_view word;
  std::string_view choice;
};
constexpr std::array<Synonym, 3> kSynonyms = {
    {{"gpu", "cuda"}, {"float32", "fp32"}, {"bfloat16", "bf16"}}};

// The choice that the text may mean; empty if none is known.
std::string meant_choice(std::string_view text, const StringList& choices) {
  for (const auto& [word, choice] : kSynonyms) {
    if (word == text && std::ranges::find(choices, choice) != choices.end()) {
      return std::string(choice);
    }
  }
  return nearest_name(text, choices);
}

struct DescribeValue {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return fmt::format("the integer {}", value); }
  std::string operator()(double value) const {
    return fmt::format("the number {}", print_number(value));
  }
  std::string operator()(const std::string& value) const {
    return fmt::format("the text {}", print_string(value));
  }
  std::string operator()(const StringList& value) const {
    return fmt::format("the list {}", print_list(value));
  }
  std::string operator()(const Unusable& value) const { return value.kind; }
};

[[noreturn]] void refuse(const Field& field, std::string_view table, std::string_view must_be,
                         std::string_view got) {
  throw UsageError(fmt::format("[{}] {} must be {}, got {}", table, field.name, must_be, got));
}

// Assigns a value to a target of one type; called with the target's type.
struct Assign {
  const Field& field;
  std::string_view table;
  const Value& value;

  void operator()(int64_t* target) const {
    const auto* integer = std::get_if<int64_t>(&value);
    const int64_t result = integer != nullptr ? *integer : whole(quantity(or_auto("an integer")));
    if (!in_range(field, static_cast<double>(result))) {
      refuse(field, table, range_phrase(field), fmt::format("{}", result));
    }
    *target = result;
  }

  void operator()(double* target) const {
    const double result = quantity(or_auto("a number"));
    if (!std::isfinite(result)) refuse(field, table, "a finite number", fmt::format("{}", result));
    if (!in_range(field, result)) {
      refuse(field, table, range_phrase(field), fmt::format("{}", result));
    }
    *target = result;
  }

  void operator()(bool* target) const {
    if (!std::holds_alternative<bool>(value)) refuse_type("true or false");
    *target = std::get<bool>(value);
  }

  void operator()(std::string* target) const { *target = allowed_text(); }

  void operator()(const NamedTarget& target) const {
    const auto found = std::ranges::find(target.names, allowed_text());
    *target.value = static_cast<uint8_t>(found - target.names.begin());
  }

  void operator()(StringList* target) const {
    if (!std::holds_alternative<StringList>(value)) refuse_type("a list of texts");
    const auto& list = std::get<StringList>(value);
    if (std::find(list.begin(), list.end(), "") != list.end()) {
      refuse(field, table, "a list without empty texts", print_list(list));
    }
    *target = list;
  }

 private:
  std::string or_auto(const char* what) const {
    return fmt::format("{}{}", what, is_automatic(key_of(table, field)) ? " or \"auto\"" : "");
  }

  [[noreturn]] void refuse_type(std::string_view must_be) const {
    refuse(field, table, must_be, std::visit(DescribeValue(), value));
  }

  // For a text that begins like a number, such as "10MB", the message lists the valid forms.
  [[noreturn]] void refuse_quantity(std::string_view must_be, const std::string& text) const {
    if (text.find_first_of("0123456789") != 0) refuse_type(must_be);
    refuse(field, table, must_be,
           fmt::format("the text {}; {}", print_string(text), written_forms(field.unit)));
  }

  const std::string& allowed_text() const {
    if (!std::holds_alternative<std::string>(value)) refuse_type("a text");
    const auto& text = std::get<std::string>(value);
    const StringList& choices = field.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
      const std::string near = meant_choice(text, choices);
      refuse(field, table, fmt::format("one of {}", fmt::join(choices, ", ")),
             print_string(text) + (near.empty() ? "" : fmt::format("; did you mean {}?", near)));
    }
    return text;
  }

  // Asks what a value with two meanings means; `shown` is the value as in TOML.
  void require_one_meaning(std::string_view text, std::string_view shown) const {
    const std::string question = unit_question(text, field.unit, field.name);
    if (question.empty()) return;
    throw UsageError(fmt::format("[{}] {} = {}: {}", table, field.name, shown, question));
  }

  double bare(double number) const {
    const std::string text = fmt::format("{}", number);
    require_one_meaning(text, text);
    return number;
  }

  double quantity(std::string_view must_be) const {
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      return bare(static_cast<double>(*integer));
    }
    if (const auto* number = std::get_if<double>(&value)) return bare(*number);
    if (const auto* text = std::get_if<std::string>(&value)) {
      require_one_meaning(*text, print_string(*text));
      try {
        return field.unit.empty() ? parse_quantity(*text) : parse_quantity(*text, field.unit);
      } catch (const UsageError&) {
        refuse_quantity(must_be, *text);
      }
    }
    refuse_type(must_be);
  }

  int64_t whole(double number) const {
    if (!(std::fabs(number) <= kLargestExactInteger) || std::trunc(number) != number) {
      refuse(field, table, "an integer", fmt::format("{}", number));
    }
    return static_cast<int64_t>(number);
  }
};

struct Print {
  std::string operator()(const int64_t* value) const { return fmt::format("{}", *value); }
  std::string operator()(const double* value) const { return print_number(*value); }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::string* value) const { return print_string(*value); }
  std::string operator()(const StringList* value) const { return print_list(*value); }
  // A value without a name is an empty text.
  std::string operator()(const NamedTarget& value) const {
    return print_string(*value < value.names.size() ? value.name() : "");
  }
};

struct NameType {
  std::string operator()(const int64_t*) const { return "integer"; }
  std::string operator()(const double*) const { return "number"; }
  std::string operator()(const bool*) const { return "true or false"; }
  std::string operator()(const std::string*) const { return "text"; }
  std::string operator()(const StringList*) const { return "list of texts"; }
  std::string operator()(const NamedTarget&) const { return "text"; }
};

// Edits of one character each: insertions, deletions, replacements and swaps of neighbours.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last;
  std::vector<size_t> last;
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j] + (a[i] == b[j] ? 0 : 1), row[j] + 1, last[j + 1] + 1});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], before_last[j - 1] + 1);
    }
  }
  return row.back();
}

// One edit in three characters is a misspelling; a beginning of some length is an abbreviation.
constexpr size_t kLettersPerEdit = 3;

size_t spelling_distance(std::string_view name, std::string_view known) {
  const bool begins = name.size() >= kLettersPerEdit && known.starts_with(name);
  return begins ? 1 : edit_distance(name, known);
}

}  // namespace

void assign(const Field& field, std::string_view table, const Value& value) {
  std::visit(Assign{field, table, value}, field.target);
}

std::string print_string(std::string_view text) {
  std::string out = "\"";
  for (const char character : text) {
    const auto code = static_cast<unsigned char>(character);
    if (character == '"' || character == '\\') {
      out += '\\';
      out += character;
    } else if (code < 0x20 || code == 0x7f) {
      out += fmt::format("\\u{:04X}", code);
    } else {
      out += character;
    }
  }
  return out + '"';
}

std::string thousands_question(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const size_t point = text.find('.');
  const std::string_view front = text.substr(0, point);
  const std::string_view back = text.substr(front.size()).substr(0, 4);
  const bool is_one = point != std::string_view::npos && !front.empty() && front.size() <= 3 &&
                      front.front() != '0' && text.size() == point + 4 &&
                      front.find_first_not_of(kDigits) == std::string_view::npos &&
                      back.find_first_not_of(kDigits, 1) == std::string_view::npos;
  if (!is_one) return {};
  return fmt::format("is it {}{} or {}? Write a whole number without a point", front,
                     back.substr(1), back == ".000" ? front : text);
}

std::string print_value(const Field& field) {
  const auto* const* number = std::get_if<double*>(&field.target);
  // A number that would be asked about is printed with its unit.
  if (number != nullptr &&
      !unit_question(fmt::format("{}", **number), field.unit, field.name).empty()) {
    return print_string(fmt::format("{} {}", **number, field.unit));
  }
  return std::visit(Print(), field.target);
}

std::string plain_value(const Field& field) {
  if (const auto* const* text = std::get_if<std::string*>(&field.target)) return **text;
  if (const auto* named = std::get_if<NamedTarget>(&field.target)) {
    return std::string(named->name());
  }
  return print_value(field);
}

std::string type_name(const Field& field) { return std::visit(NameType(), field.target); }

std::string range_phrase(const Field& field) {
  StringList parts;
  if (field.min > -kInfinity) {
    parts.push_back(fmt::format("{} {}", field.min_open ? ">" : ">=", field.min));
  }
  if (field.max < kInfinity) parts.push_back(fmt::format("<= {}", field.max));
  return fmt::format("{}", fmt::join(parts, " and "));
}

bool in_range(const Field& field, double value) {
  return std::isfinite(value) && value <= field.max &&
         (field.min_open ? value > field.min : value >= field.min);
}

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, name.size() / kLettersPerEdit) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = spelling_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace thinwire::config
