// Which of many overrides cause a contradiction.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "thinwire/config/fields.h"

namespace thinwire::config {

// What is wrong with a recipe under these overrides; empty if nothing is.
using Complaint = std::function<std::string(std::span<const std::string> overrides)>;

// A smallest set of overrides, in their order, that still causes the contradiction seen under all
// of them: leaving out any one of the set removes it. Empty if the contradiction exists without
// overrides. Two contradictions are the same if their messages differ only in numbers and in texts
// in double quotes.
StringList blamed_overrides(StringList overrides, const Complaint& complaint);

}  // namespace thinwire::config
