// TOML files that are a list of tables of one kind, [[member]] after [[member]], read with the same
// field descriptions, checks and messages as recipes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/fields.h"

namespace thinwire::config {

// One section for each [[name]] of the file, in its order: a copy of `prototype` with the table's
// values. Throws UsageError naming file, line and field for anything that a recipe would refuse,
// for anything but these tables, and if there is none.
std::vector<std::unique_ptr<Section>> load_table_list(const std::filesystem::path& file,
                                                      const std::string& name,
                                                      const Section& prototype);

// The same from text; `origin` names it in errors.
std::vector<std::unique_ptr<Section>> parse_table_list(std::string_view toml,
                                                       const std::string& origin,
                                                       const std::string& name,
                                                       const Section& prototype);

// The same, returning the sections' own type.
template <typename T>
std::vector<T> load_tables(const std::filesystem::path& file, const std::string& name) {
  std::vector<T> tables;
  for (const auto& section : load_table_list(file, name, T())) {
    tables.push_back(static_cast<const T&>(*section));
  }
  return tables;
}
template <typename T>
std::vector<T> parse_tables(std::string_view toml, const std::string& origin,
                            const std::string& name) {
  std::vector<T> tables;
  for (const auto& section : parse_table_list(toml, origin, name, T())) {
    tables.push_back(static_cast<const T&>(*section));
  }
  return tables;
}

// The section as a table [[name]] that load_table_list can read.
std::string print_table(const std::string& name, Section& section);

}  // namespace thinwire::config
