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
// "B", may also have a suffix Ki, Mi, Gi, Ti or Pi (powers of 1024): "16GiB". Rates may also have
// the units that people write: "10Mbps", "100mbit", "10MB/s" (8 bits each) and "1MiB/s" for
// "bit/s", where b is bits and B is bytes, "165TFLOPS" for "FLOP/s", "2k tok/s" for "tokens/s".
// Times, unit "s" or "min", may have any of the units us, ms, s, min, h and d: "20ms". The error
// message names the unit.
double parse_quantity(std::string_view text, std::string_view unit);

// What to ask about a text that parse_quantity refuses because it has two meanings: "does it count
// bytes (10MB/s) or bits (10Mbit/s)?" of "10Mb", and of a bare number of bit/s or FLOP/s that is
// less than any line or processor has, "is it 10 Mbit/s or 10 bit/s? ...". The name of the option
// or field tells memory from other sizes, of which a bare number below 1 MB is asked about, and the
// option --delay from other times, of which one above 2 is. Else empty.
std::string unit_question(std::string_view text, std::string_view unit, std::string_view name = "");

// How numbers of a unit may be written, for messages: 'numbers are written like 1e7, 2.5M or
// "2.5M bit/s" (suffixes k, M, G, T or P)'.
std::string written_forms(std::string_view unit);

}  // namespace thinwire
