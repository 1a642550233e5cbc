#include "thinwire/config/blame.h"

#include <utility>

namespace thinwire::config {
namespace {

std::string without_values(std::string_view message) {
  std::string text;
  bool quoted = false;
  for (const char character : message) {
    if (character == '"') quoted = !quoted;
    if (!quoted && (character < '0' || character > '9')) text += character;
  }
  return text;
}

}  // namespace

StringList blamed_overrides(StringList overrides, const Complaint& complaint) {
  const std::string contradiction = without_values(complaint(overrides));
  for (size_t i = 0; i < overrides.size();) {
    StringList others = overrides;
    others.erase(others.begin() + static_cast<ptrdiff_t>(i));
    if (without_values(complaint(others)) == contradiction) {
      overrides = std::move(others);
    } else {
      ++i;
    }
  }
  return overrides;
}

}  // namespace thinwire::config
