#include "thinwire/base/units.h"

#include <fmt/format.h>

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

std::string_view suffixes_of(std::string_view unit) {
  return unit == "B" ? "k, M, G, T, P or Ki, Mi, Gi, Ti, Pi" : "k, M, G, T or P";
}

double parse_quantity(std::string_view text) {
  if (const std::optional<double> value = decimal_quantity(text)) return *value;
  throw UsageError(
      fmt::format("'{}' is not a number with an optional suffix {}", text, suffixes_of("")));
}

double parse_quantity(std::string_view text, std::string_view unit) {
  std::string number(text);
  if (text.ends_with(unit)) {
    number.resize(text.size() - unit.size());
    std::erase(number, ' ');
  }
  std::optional<double> value = decimal_quantity(number);
  if (!value && unit == "B") value = binary_quantity(number);
  if (value) return *value;
  throw UsageError(fmt::format("'{}' is not a number with an optional suffix {} and the unit {}",
                               text, suffixes_of(unit), unit));
}

}  // namespace thinwire
