// What recipes may say, for programs that show or ask it: what `thinwire recipe --explain` prints.
// Target thinwire::spec.
#pragma once

#include <string>
#include <vector>

namespace thinwire {

// A field of a recipe.
struct RecipeField {
  std::string table;  // "train"
  std::string name;   // "steps"
  std::string type;   // "integer", "number", "text", "true or false", "list of texts"
  std::string unit;   // "steps"; empty: it has none
  std::string value;  // the default, as a recipe file writes it
  std::string range;  // ">= 1"; empty: any value
  std::vector<std::string> choices;  // the values that it can have; empty: any
  std::string sentence;              // what it means

  std::string key() const { return table + "." + name; }
};

// Those of all tables, in the order in which `thinwire recipe` prints them.
std::vector<RecipeField> recipe_fields();

}  // namespace thinwire
