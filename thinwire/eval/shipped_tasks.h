// The task files of tasks/, which are part of the program.
#pragma once

#include <span>
#include <string_view>

namespace thinwire::eval {

struct ShippedTask {
  std::string_view name;  // of the file, without .toml
  std::string_view toml;  // its text
};

// Ordered by name.
std::span<const ShippedTask> shipped_tasks();

}  // namespace thinwire::eval
