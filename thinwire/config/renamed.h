// Former names of recipe fields, tables and values. Recipes, overrides and sweeps may still use
// them, and a notice then gives the current name. Recipes are printed with current names; a run's
// identity keeps the first names, so a rename does not make it a different run.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/changes.h"
#include "thinwire/config/recipe.h"

namespace thinwire::config {

struct RenamedKey {
  std::string_view before;  // "table.field", or "table" for a table with all its fields
  std::string_view now;     // the same, current
  // For a field that moved to another table: the first name of the field after which it used to
  // come.
  std::string_view behind = {};
};

struct RenamedValue {
  std::string_view field;  // current name; its values are texts
  std::string_view before;
  std::string_view now;
};

// All renames ever made. Lines are added and never removed.
struct Renames {
  std::span<const RenamedKey> keys;
  std::span<const RenamedValue> values;

  // The current name of a "table.field" or a "table", and the first name it had.
  std::string present_key(std::string_view key) const;
  std::string first_key(std::string_view key) const;
  // The same for a value of the field whose current name is `field`.
  std::string present_value(std::string_view field, std::string_view value) const;
  std::string first_value(std::string_view field, std::string_view value) const;
  // An override "table.field=value" with the current name of its field. For programs that add
  // overrides of their own to a user's, which may use old names.
  std::string present_override(std::string_view text) const;
  // The current names of fields and tables that were once called `name`, without their table too
  // ("muon_lr" for "optim.muon_lr"); empty if none was.
  std::string renamed_from(std::string_view name) const;
};

// The renames of recipes.
const Renames& recipe_renames();

// The names that one source uses: a file, a table [when.<method>], or the overrides.
class NamesRead {
 public:
  // Sentences about old names are added to `notices`, each once; it must outlive the object.
  NamesRead(const Renames& renames, StringList& notices) : renames_(renames), notices_(notices) {}

  // The current name of a "table.field" or "table". Throws UsageError if the source has already
  // given the same thing under another name.
  std::string key(std::string_view given);
  // The current name of a value of the field whose current name is `field`.
  std::string value(std::string_view field, const std::string& given);

 private:
  void note(std::string notice);

  Renames renames_;
  StringList& notices_;
  std::map<std::string, std::string> given_;  // by current name
};

// Changes of fields of `recipe` under the names that fields and values had first, in the order in
// which recipes were printed then.
std::vector<FieldChange> first_named(const Renames& renames, const Recipe& recipe,
                                     std::vector<FieldChange> changes);

}  // namespace thinwire::config
