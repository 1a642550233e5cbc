// TOML files that are a list of equal tables, [[member]] after [[member]], read with the same
// descriptions of fields, checks and messages as recipes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/config/fields.h"

namespace thinwire::config {

// One section for each [[name]] of the file, in its order: a copy of `prototype` with the table's
// values. Throws UsageError that names file, line and field for whatever a recipe would refuse, for
// anything but these tables, and where there is none.
std::vector<std::unique_ptr<Section>> load_table_list(const std::filesystem::path& file,
                                                      const std::string& name,
                                                      const Section& prototype);

// The same with the sections' own type.
template <typename T>
std::vector<T> load_tables(const std::filesystem::path& file, const std::string& name) {
  std::vector<T> tables;
  for (const auto& section : load_table_list(file, name, T())) {
    tables.push_back(static_cast<const T&>(*section));
  }
  return tables;
}

// The section as a table [[name]] that load_table_list reads back.
std::string print_table(const std::string& name, Section& section);

}  // namespace thinwire::config
