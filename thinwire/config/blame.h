// Which of many overrides bring a contradiction about.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "thinwire/config/fields.h"

namespace thinwire::config {

// What is wrong with a recipe under these overrides; empty: nothing.
using Complaint = std::function<std::string(std::span<const std::string> overrides)>;

// The overrides without any one of which there is no such contradiction as under all of them, in
// their order; empty where there is one without overrides. Contradictions are the same where their
// messages are but for numbers and texts in double quotes.
StringList blamed_overrides(StringList overrides, const Complaint& complaint);

}  // namespace thinwire::config
