#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "thinwire/base/error.h"
#include "thinwire/config/sections.h"

namespace thinwire::config {
namespace {

// Takes a number followed by `end` off the text; false if there is none.
template <typename Number>
bool take_number(std::string_view& text, char end, Number& number) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(read.ptr - text.data()));
  if (end == '\0') return text.empty();
  if (text.empty() || text.front() != end) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::vector<Absence> absences_of(const SyncSection& sync, int64_t workers) {
  std::vector<Absence> absences;
  for (const std::string& entry : sync.absent) {
    Absence one;
    std::string_view text = entry;
    if (!take_number(text, '=', one.member) || !take_number(text, '-', one.first) ||
        !take_number(text, '\0', one.last)) {
      throw UsageError(fmt::format("[sync] absent must be like \"2=3-5\", got \"{}\"", entry));
    }
    if (one.member < 0 || one.member >= workers) {
      throw UsageError(fmt::format("[sync] absent: \"{}\" names member {}, but there are {}", entry,
                                   one.member, workers));
    }
    if (one.first < 1 || one.last < one.first) {
      throw UsageError(fmt::format(
          "[sync] absent: \"{}\" must name rounds FIRST-LAST with 1 <= FIRST <= LAST", entry));
    }
    absences.push_back(one);
  }
  return absences;
}

bool is_absent(std::span<const Absence> absences, int member, int64_t round) {
  return std::ranges::any_of(absences, [&](const Absence& one) {
    return one.member == member && one.first <= round && round <= one.last;
  });
}

int64_t unchanged_since(std::span<const Absence> absences, int member, int64_t round) {
  const bool inactive = is_absent(absences, member, round);
  // It can only change where an absence begins or has just ended.
  int64_t since = 1;
  for (const Absence& one : absences) {
    for (const int64_t change : {one.first, one.last + 1}) {
      const bool changed = change > 1 && is_absent(absences, member, change) == inactive &&
                           is_absent(absences, member, change - 1) != inactive;
      if (one.member == member && change <= round && changed) since = std::max(since, change);
    }
  }
  return since;
}

}  // namespace thinwire::config
