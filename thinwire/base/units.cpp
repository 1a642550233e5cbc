#include "thinwire/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "thinwire/base/error.h"

namespace thinwire {
namespace {

struct Suffix {
  char letter;
  double factor;
  int exponent;
};
constexpr std::array<Suffix, 5> kSuffixes = {
    {{'k', 1e3, 3}, {'M', 1e6, 6}, {'G', 1e9, 9}, {'T', 1e12, 12}, {'P', 1e15, 15}}};

struct BinarySuffix {
  std::string_view text;
  double factor;
};
constexpr std::array<BinarySuffix, 5> kBinarySuffixes = {
    {{"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}}};

// Bare numbers between the two that hardly anybody means in this unit, and the prefix that whoever
// types them leaves out. The name of the option or field must contain `name`.
struct Unusual {
  std::string_view unit;
  std::string_view name;
  double above;
  double below;
  char prefix;
};
constexpr std::array<Unusual, 9> kUnusual = {{
    {"bit/s", "", 0, 1e3, 'M'},
    {"FLOP/s", "", 0, 1e3, 'T'},
    {"B", "memory", 0, 1e3, 'G'},
    {"B", "limit", 0, 1e3, 'G'},
    {"B", "cache", 0, 1e3, 'G'},
    {"B", "memory", 0, 1e6, 'M'},
    {"B", "limit", 0, 1e6, 'M'},
    {"B", "cache", 0, 1e6, 'M'},
    {"s", "--delay", 2, std::numeric_limits<double>::infinity(), 'm'},
}};

// One of it is times / over seconds; both are whole, so that "35ms" is the double nearest to 0.035.
struct TimeUnit {
  std::string_view text;
  double times;
  double over;
};
constexpr std::array<TimeUnit, 7> kTimeUnits = {{{"s", 1, 1},
                                                 {"ms", 1, 1e3},
                                                 {"us", 1, 1e6},
                                                 {"µs", 1, 1e6},
                                                 {"min", 60, 1},
                                                 {"h", 3600, 1},
                                                 {"d", 86400, 1}}};

// Other spellings of a unit, behind a suffix in upper or lower case.
struct Spelling {
  std::string_view unit;
  std::string_view text;
  double factor = 1;
  bool any_case = true;
};
constexpr std::array<Spelling, 14> kSpellings = {{
    {"bit/s", "bit/s"},
    {"bit/s", "bits/s"},
    {"bit/s", "bit"},
    {"bit/s", "bits"},
    {"bit/s", "byte/s", 8},
    {"bit/s", "bytes/s", 8},
    {"bit/s", "bps", 1, false},
    {"bit/s", "b/s", 1, false},
    {"bit/s", "Bps", 8, false},
    {"bit/s", "B/s", 8, false},
    {"FLOP/s", "flop/s"},
    {"FLOP/s", "flops"},
    {"FLOP/s", "flops/s"},
    {"tokens/s", "tok/s"},
}};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string with_suffix(double value, std::string_view unit) {
  const double size = std::fabs(value);
  // A number that would round to 1000 gets the next suffix.
  if (!(size >= 999.5)) return fmt::format("{:.0f}{}{}", value, unit.empty() ? "" : " ", unit);
  size_t at = 0;
  while (at + 1 < kSuffixes.size() && size >= 999.5 * kSuffixes[at].factor) ++at;
  const double scaled = value / kSuffixes[at].factor;
  const int decimals = std::fabs(scaled) < 9.995 ? 2 : std::fabs(scaled) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}{}", scaled, decimals, kSuffixes[at].letter, unit);
}

// Milliseconds or microseconds; what would round to 1000 microseconds is a millisecond.
std::string below_a_second(double seconds) {
  const bool millis = std::fabs(seconds) >= 0.9995e-3;
  const double scaled = seconds * (millis ? 1e3 : 1e6);
  if (std::fabs(scaled) < 0.05) return "0 s";
  return fmt::format("{:.{}f} {}", scaled, std::fabs(scaled) < 9.95 ? 1 : 0, millis ? "ms" : "µs");
}

std::optional<double> plain_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> decimal_quantity(std::string_view text) {
  // The suffix becomes an exponent, so that "2.3M" is the double nearest to 2300000.
  for (const Suffix& known : kSuffixes) {
    if (!text.ends_with(known.letter)) continue;
    return plain_number(fmt::format("{}e{}", text.substr(0, text.size() - 1), known.exponent));
  }
  return plain_number(text);
}

std::optional<double> binary_quantity(std::string_view text) {
  for (const BinarySuffix& known : kBinarySuffixes) {
    if (!text.ends_with(known.text)) continue;
    const std::optional<double> number =
        plain_number(text.substr(0, text.size() - known.text.size()));
    if (number && std::isfinite(*number * known.factor)) return *number * known.factor;
  }
  return std::nullopt;
}

// "10m" for "10M": what follows is a unit, of which there are no thousandths.
std::string with_upper_suffix(std::string number) {
  if (number.ends_with('K')) {
    number.back() = 'k';
  } else if (number.ends_with('m') || number.ends_with('g') || number.ends_with('t') ||
             number.ends_with('p')) {
    number.back() = static_cast<char>(number.back() - 'a' + 'A');
  }
  return number;
}

std::optional<double> spelled_quantity(std::string_view text, std::string_view unit) {
  for (const Spelling& known : kSpellings) {
    const std::string given = known.any_case ? lower_case(text) : std::string(text);
    if (known.unit != unit || !given.ends_with(known.text)) continue;
    std::string number(text.substr(0, text.size() - known.text.size()));
    std::erase(number, ' ');
    std::optional<double> value = decimal_quantity(with_upper_suffix(number));
    if (!value && known.factor == 8) value = binary_quantity(number);
    if (value) return *value * known.factor;
  }
  return std::nullopt;
}

const TimeUnit* time_unit(std::string_view unit) {
  const auto* found = std::ranges::find(kTimeUnits, unit, &TimeUnit::text);
  return found == kTimeUnits.end() ? nullptr : found;
}

// A time with its unit, in `unit`.
std::optional<double> time_quantity(std::string_view text, const TimeUnit& unit) {
  for (const TimeUnit& known : kTimeUnits) {
    if (!text.ends_with(known.text)) continue;
    std::string number(text.substr(0, text.size() - known.text.size()));
    std::erase(number, ' ');
    const std::optional<double> value = plain_number(number);
    if (value) return *value * (known.times * unit.over) / (known.over * unit.times);
  }
  return std::nullopt;
}

std::optional<double> quantity_with_unit(std::string_view text, std::string_view unit) {
  std::string number(text);
  if (text.ends_with(unit)) {
    number.resize(text.size() - unit.size());
    std::erase(number, ' ');
  }
  if (const TimeUnit* time = time_unit(unit)) {
    if (const std::optional<double> value = time_quantity(text, *time)) return value;
  }
  std::optional<double> value = decimal_quantity(number);
  if (!value && unit == "B") value = binary_quantity(number);
  return value ? value : spelled_quantity(text, unit);
}

std::string_view suffixes_of(std::string_view unit) {
  return unit == "B" ? "k, M, G, T, P or Ki, Mi, Gi, Ti, Pi" : "k, M, G, T or P";
}

// What to ask about a number without prefix and unit.
std::string bare_question(double number, std::string_view unit, std::string_view name) {
  for (const Unusual& known : kUnusual) {
    if (known.unit != unit || name.find(known.name) == std::string_view::npos) continue;
    if (!(number > known.above) || number >= known.below) continue;
    return fmt::format("is it {0} {1}{2} or {0} {2}? Write the unit, too: {0}{1}{2}", number,
                       known.prefix, unit);
  }
  return {};
}

}  // namespace

std::string format_bytes(double bytes) { return with_suffix(bytes, "B"); }

std::string format_count(double count) { return with_suffix(count, ""); }

std::string format_parameters(double count) {
  std::string text = format_count(count);
  if (text.ends_with('G')) text.back() = 'B';
  return text;
}

std::string format_seconds(double seconds) {
  if (std::fabs(seconds) < 0.9995) return below_a_second(seconds);
  if (!(seconds >= 59.95) || std::isinf(seconds)) return fmt::format("{:.1f} s", seconds);
  constexpr double kYear = 365.25 * 86400;
  if (seconds >= 1000 * kYear) return fmt::format("{:.3g} years", seconds / kYear);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  if (whole < 48 * 3600) return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {:02} h", whole / 86400, whole % 86400 / 3600);
}

double without_nan_sign(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

std::string counted(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string written_forms(std::string_view unit) {
  if (time_unit(unit) != nullptr) return "times are written like 20ms, 1.5s, 10min, 2h or 1d";
  return fmt::format("numbers are written like {} (suffixes {})",
                     unit.empty() ? "1e7 or 2.5M" : fmt::format("1e7, 2.5M or \"2.5M {}\"", unit),
                     suffixes_of(unit));
}

double parse_quantity(std::string_view text) {
  if (const std::optional<double> value = decimal_quantity(text)) return *value;
  throw UsageError(fmt::format("'{}' is not a number like 2.5 with an optional suffix {}", text,
                               suffixes_of("")));
}

double parse_quantity(std::string_view text, std::string_view unit) {
  const std::string question = unit_question(text, unit);
  if (!question.empty()) throw UsageError(fmt::format("'{}': {}", text, question));
  if (const std::optional<double> value = quantity_with_unit(text, unit)) return *value;
  if (time_unit(unit) != nullptr) {
    throw UsageError(fmt::format("'{}' is not a time; {}", text, written_forms(unit)));
  }
  throw UsageError(
      fmt::format("'{}' is not a number like 2.5 with an optional suffix {} and the unit {}", text,
                  suffixes_of(unit), unit));
}

std::string unit_question(std::string_view text, std::string_view unit, std::string_view name) {
  if (const std::optional<double> number = plain_number(text)) {
    return bare_question(*number, unit, name);
  }
  if (unit != "bit/s" || quantity_with_unit(text, unit)) return {};
  const std::string lower = lower_case(text);
  for (const std::string_view ending : {"bps", "b/s", "b"}) {
    if (!lower.ends_with(ending)) continue;
    std::string number(text.substr(0, text.size() - ending.size()));
    std::erase(number, ' ');
    number = with_upper_suffix(number);
    if (!decimal_quantity(number)) return {};
    return fmt::format("does it count bytes ({}B/s) or bits ({}bit/s)?", number, number);
  }
  return {};
}

}  // namespace thinwire
