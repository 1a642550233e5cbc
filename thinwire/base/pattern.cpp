#include "thinwire/base/pattern.h"

namespace thinwire {

bool matches_pattern(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t from = star; from <= name.size(); ++from) {
    if (matches_pattern(rest, name.substr(from))) return true;
  }
  return false;
}

}  // namespace thinwire
