// A recipe: the TOML file that describes a complete run (docs/recipes.md; `thinwire recipe
// --explain` says what each field means). Target thinwire::spec.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/error.h"

namespace thinwire {

// Immutable; copies share what they hold. May be used by several threads.
class Recipe {
 public:
  // Reads the file and sets the overrides, "table.field=value", as on the command line of `thinwire
  // train`: bare strings need no quotes and numbers may carry a suffix (100M). An empty path stands
  // for a file without any field. Throws UsageError naming the file, the field, the value
  // and what would be right.
  explicit Recipe(const std::filesystem::path& file, std::vector<std::string> overrides = {});

  // The value of a field, "table.field", as a recipe file writes it: get("sync.method") is
  // "\"distro\"". Throws UsageError if there is no such field.
  std::string get(std::string_view field) const;
  // All fields as TOML, from which the same recipe can be read.
  std::string text() const;

  // Internal; defined in no public header.
  struct Parts;
  const Parts& parts() const { return *parts_; }

 private:
  std::shared_ptr<const Parts> parts_;
};

// The values that sync.method can have.
std::vector<std::string> method_names();

}  // namespace thinwire
