// Names that recipes once had: of fields, of whole tables, of values. Recipes, overrides and sweeps
// may still use them, and whoever does is told the present ones. Recipes are printed with present
// names; a run's identity keeps the first ones, so that a rename makes no other run of it.
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
  std::string_view now;     // likewise
  // Of a field that moved to another table: the field, by its first name, that it stood behind.
  std::string_view behind = {};
};

struct RenamedValue {
  std::string_view field;  // as it is called now; its values are texts
  std::string_view before;
  std::string_view now;
};

// All renames of a history. Lines are added, and never taken away.
struct Renames {
  std::span<const RenamedKey> keys;
  std::span<const RenamedValue> values;

  // A "table.field" or a "table", as it is called now and as it was first called.
  std::string present_key(std::string_view key) const;
  std::string first_key(std::string_view key) const;
  // A value of a field whose present name is `field`, likewise.
  std::string present_value(std::string_view field, std::string_view value) const;
  std::string first_value(std::string_view field, std::string_view value) const;
  // An override "table.field=value" with the present name of its field. For programs that add
  // overrides of their own to a user's, which may use old names.
  std::string present_override(std::string_view text) const;
  // Fields and tables that `name` was once the name of, "muon_lr" included for "optim.muon_lr";
  // empty: it never was.
  std::string renamed_from(std::string_view name) const;
};

// Those of recipes.
const Renames& recipe_renames();

// The names that one source uses: a file, a table [when.<method>], or the overrides.
class NamesRead {
 public:
  // Sentences about old names are added to `notices`, each once; they outlive the object.
  NamesRead(const Renames& renames, StringList& notices) : renames_(renames), notices_(notices) {}

  // The present name of a "table.field" or "table". Throws UsageError where the source has given
  // the same thing by another name.
  std::string key(std::string_view given);
  // The present name of a value of the field whose present name is `field`.
  std::string value(std::string_view field, const std::string& given);

 private:
  void note(std::string notice);

  Renames renames_;
  StringList& notices_;
  std::map<std::string, std::string> given_;  // by present name
};

// Changes of fields of `recipe` under the names that fields and values first had, in the order in
// which recipes were printed then.
std::vector<FieldChange> first_named(const Renames& renames, const Recipe& recipe,
                                     std::vector<FieldChange> changes);

}  // namespace thinwire::config
