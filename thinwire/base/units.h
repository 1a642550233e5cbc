// Quantities in the form in which people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thinwire {

// 1234567 -> "1.23 MB" (powers of 1000; whole bytes below 1000).
std::string format_bytes(double bytes);
// 1234567 -> "1.23 M"; below 1000 without a suffix.
std::string format_count(double count);
// As people write numbers of parameters and tokens: 1.2e9 -> "1.20 B".
std::string format_parameters(double count);
// 3725 -> "1 h 02 min"; 75 -> "1 min 15 s"; 4.2 -> "4.2 s"; 0.0123 -> "12 ms"; 4.2e-6 -> "4.2 µs".
// Two or three digits below a second.
std::string format_seconds(double seconds);

// A number for a message: removes the sign of a NaN, which would otherwise be shown as "-nan".
double without_nan_sign(double value);

// "1 document", "2 documents".
std::string counted(int64_t count, std::string_view what);
inline std::string counted(uint64_t count, std::string_view what) {
  return counted(static_cast<int64_t>(count), what);
}

// "150T", "0.8G", "4M", "10k", "1e6", "512" -> number (powers of 1000). Throws UsageError naming
// the text when it is not a finite number with an optional suffix k, M, G, T, P.
double parse_quantity(std::string_view text);

// The same, but the unit may follow: "0.8Gbit/s" and "0.8 Gbit/s" for the unit "bit/s". Bytes, unit
// "B", may also have a suffix Ki, Mi, Gi, Ti or Pi (powers of 1024): "16GiB". The error message
// names the unit.
double parse_quantity(std::string_view text, std::string_view unit);

// The suffixes that numbers of a unit may have, for messages.
std::string_view suffixes_of(std::string_view unit);

}  // namespace thinwire
