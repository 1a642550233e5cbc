// Reads a recipe: TOML and overrides to values, values to fields.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/config/automatic.h"
#include "thinwire/config/changes.h"
#include "thinwire/config/check.h"
#include "thinwire/config/renamed.h"
#include "thinwire/config/table_list.h"
#include "thinwire/config/toml_document.h"
#include "thinwire/config/values.h"

namespace thinwire::config {
namespace {

// The table of fields that depend on the method.
constexpr std::string_view kWhen = "when";
constexpr std::string_view kChoosesWhen = "sync.method";

struct Table {
  std::string name;
  std::vector<Field> fields;
  std::set<std::string>* given = nullptr;  // of the recipe that it is a table of

  const Field* find(std::string_view field) const {
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [&](const Field& known) { return known.name == field; });
    return found == fields.end() ? nullptr : &*found;
  }
};

Table table_of(const std::string& name, Section& section) {
  Fields fields;
  section.describe(fields);
  return {name, fields.all()};
}

std::vector<Table> tables_of(Recipe& recipe) {
  std::vector<Table> tables;
  for (const auto& [name, section] : recipe.sections()) {
    tables.push_back(table_of(name, *section));
    tables.back().given = &recipe.given;
  }
  return tables;
}

// Runs `body` and prefixes the message of any UsageError from it with `place`.
template <typename Body>
void at_place(std::string_view place, const Body& body) {
  try {
    body();
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", place, error.what()));
  }
}

[[noreturn]] void throw_unknown_table(const std::vector<Table>& tables, std::string_view name) {
  StringList known;
  for (const Table& table : tables) known.push_back(table.name);
  const std::string near = nearest_name(name, known);
  throw UsageError(
      near.empty()
          ? fmt::format("there is no table [{}]; the tables are {}", name, fmt::join(known, ", "))
          : fmt::format("there is no table [{}]; did you mean [{}]?", name, near));
}

[[noreturn]] void throw_unknown_field(const std::vector<Table>& tables, const Table& table,
                                      std::string_view name) {
  StringList known;
  for (const Field& field : table.fields) known.emplace_back(field.name);
  std::string hint = nearest_name(name, known);
  for (const Table& other : tables) {
    if (hint.empty() && other.find(name) != nullptr)
      hint = fmt::format("[{}] {}", other.name, name);
  }
  throw UsageError(hint.empty() ? fmt::format("[{}] has no field '{}'; its fields are {}",
                                              table.name, name, fmt::join(known, ", "))
                                : fmt::format("[{}] has no field '{}'; did you mean {}?",
                                              table.name, name, hint));
}

const Table& find_table(const std::vector<Table>& tables, std::string_view name) {
  for (const Table& table : tables) {
    if (table.name == name) return table;
  }
  throw_unknown_table(tables, name);
}

const Field& find_field(const std::vector<Table>& tables, const Table& table,
                        std::string_view name) {
  const Field* field = table.find(name);
  if (field == nullptr) throw_unknown_field(tables, table, name);
  return *field;
}

// Sets the field "table.field", given by its old or current name, to what `value_for` returns; of
// "auto" only records that the field is left open.
template <typename ValueFor>
void set_field(const std::vector<Table>& tables, NamesRead& names, std::string_view given,
               const ValueFor& value_for) {
  const std::string key = names.key(given);
  const size_t dot = key.find('.');
  const Table& table = find_table(tables, std::string_view(key).substr(0, dot));
  const Field& field = find_field(tables, table, std::string_view(key).substr(dot + 1));
  Value value = value_for(field);
  if (auto* text = std::get_if<std::string>(&value)) {
    *text = names.value(key, *text);
    if (*text == kAuto && is_automatic(key) && table.given != nullptr) {
      table.given->erase(key);
      return;
    }
  }
  assign(field, table.name, value);
  if (table.given != nullptr) table.given->insert(key);
}

Value value_of(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* array = node.as_array()) {
    StringList list;
    for (const toml::node& element : *array) {
      if (!element.is_string()) return Unusable{"a list that holds something else"};
      list.push_back(element.as_string()->get());
    }
    return list;
  }
  return Unusable{node.is_table() ? "a table" : "a date or time"};
}

std::string place_of(std::string_view origin, const toml::source_region& source) {
  return fmt::format("{}:{}", origin, source.begin.line);
}

void read_table(const std::vector<Table>& tables, NamesRead& names, std::string_view table,
                const toml::table& values, std::string_view origin) {
  for (const auto& [key, node] : values) {
    at_place(place_of(origin, key.source()), [&, &name = key, &value = node] {
      set_field(tables, names, fmt::format("{}.{}", table, name.str()),
                [&](const Field&) { return value_of(value); });
    });
  }
}

// Reads every table of the document except [when].
void read_document(const std::vector<Table>& tables, NamesRead names, const toml::table& document,
                   std::string_view origin) {
  for (const auto& [key, node] : document) {
    if (key.str() == kWhen && node.is_table()) continue;
    at_place(place_of(origin, key.source()), [&, &name = key, &value = node] {
      if (!value.is_table()) {
        throw UsageError(fmt::format("'{}' must be in a table such as [train]", name.str()));
      }
      find_table(tables, names.key(name.str()));
    });
    read_table(tables, names, key.str(), *node.as_table(), origin);
  }
}

// Reads [when.<method>]: that of the chosen method into the recipe, the others only to find
// mistakes.
void read_when(Recipe& recipe, const Renames& renames, const toml::table& document,
               std::string_view origin) {
  const toml::table* when = document.get_as<toml::table>(kWhen);
  if (when == nullptr) return;
  NamesRead methods(renames, recipe.notices);
  for (const auto& [key, node] : *when) {
    std::string chosen;
    at_place(place_of(origin, key.source()), [&, &name = key, &value = node] {
      chosen = methods.key(name.str());
      const auto found = recipe.methods.find(chosen);
      const bool method =
          found != recipe.methods.end() && found->second->chosen_by() == kChoosesWhen;
      if (!value.is_table() || !method) {
        throw UsageError(fmt::format("[when.{}] must be a table named after a method", name.str()));
      }
    });
    Recipe other = recipe;
    Recipe& target = chosen == recipe.sync.method ? recipe : other;
    const std::string method = target.sync.method;
    read_document(tables_of(target), {renames, recipe.notices}, *node.as_table(), origin);
    at_place(place_of(origin, key.source()), [&, &name = key] {
      if (target.sync.method == method) return;
      throw UsageError(fmt::format("[when.{}] cannot set [sync] method", name.str()));
    });
  }
}

// The text as one TOML value, if it is one.
std::optional<Value> parse_value(std::string_view text) {
  try {
    const toml::table document = parse_toml(fmt::format("value = {}\n", text), "");
    if (document.size() != 1) return std::nullopt;
    return value_of(*document.get("value"));
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

// Text without quotes, which must still be something that a TOML file can contain.
Value bare_text(std::string_view text) {
  const std::optional<Value> value = parse_value(print_string(text));
  if (!value) throw UsageError("the value is not valid UTF-8");
  return *value;
}

Value split_list(std::string_view text) {
  StringList list;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    list.push_back(std::get<std::string>(bare_text(text.substr(0, end))));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return list;
}

Value override_value(const Field& field, std::string_view text) {
  const bool quoted = text.starts_with('"') || text.starts_with('\'');
  const bool bracketed = text.starts_with('[');
  const bool takes_text = std::holds_alternative<std::string*>(field.target) ||
                          std::holds_alternative<NamedTarget>(field.target);
  const bool takes_list = std::holds_alternative<StringList*>(field.target);
  if (takes_list && !bracketed) return split_list(text);
  if (takes_text && !quoted) return bare_text(text);
  if (std::holds_alternative<int64_t*>(field.target)) {
    const std::string question = thousands_question(text);
    if (!question.empty()) throw UsageError(question);
  }
  const std::optional<Value> value = parse_value(text);
  return value ? *value : bare_text(text);
}

// Without spaces at both ends, which a value keeps that consists of them or is in quotes.
std::string_view without_margin(std::string_view text) {
  constexpr std::string_view kSpaces = " \t";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return text;
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

void apply_override(const std::vector<Table>& tables, NamesRead& names, std::string_view text) {
  const size_t equals = text.find('=');
  const size_t dot = text.substr(0, equals).find('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos) {
    throw UsageError("an override is written table.field=value, for example train.steps=100");
  }
  const std::string_view value = without_margin(text.substr(equals + 1));
  set_field(tables, names, without_margin(text.substr(0, equals)),
            [&](const Field& field) { return override_value(field, value); });
}

void apply_overrides(const std::vector<Table>& tables, NamesRead names,
                     std::span<const std::string> overrides) {
  for (const std::string& text : overrides) {
    at_place(fmt::format("override '{}'", text), [&] { apply_override(tables, names, text); });
  }
}

std::string folder_of(const std::string& run) { return "runs/" + run; }

void fill_derived(Recipe& recipe) {
  const auto own = recipe.methods.find(recipe.model.architecture);
  if (own != recipe.methods.end()) own->second->fill_derived(recipe);
  if (recipe.run.dir.empty()) recipe.run.dir = folder_of(recipe.run.name);
}

// Reads a document, possibly several times with different overrides.
struct Reader {
  const toml::table document;
  std::string_view origin;
  const MethodSections& methods;
  const Check& further;
  const Renames& renames;

  Recipe read(std::span<const std::string> overrides) const {
    Recipe recipe;
    for (const auto& [table, section] : methods) recipe.methods[table] = section->clone();
    const Recipe defaults = recipe;
    const std::vector<Table> tables = tables_of(recipe);
    const auto names = [&] { return NamesRead(renames, recipe.notices); };
    read_document(tables, names(), document, origin);
    // A printed recipe contains the folder, which must still follow an overridden name.
    if (recipe.run.dir == folder_of(recipe.run.name)) recipe.run.dir.clear();
    apply_overrides(tables, names(), overrides);  // they may choose the method
    read_when(recipe, renames, document, origin);
    apply_overrides(tables, names(), overrides);  // and they win over [when]
    take_open_numbers(recipe, defaults);          // where "auto" followed a number
    const Recipe open = recipe;
    fill_derived(recipe);
    for (const FieldChange& derived : field_changes(open, recipe)) {
      recipe.given.erase(derived.field);
    }
    return recipe;
  }

  void check(const Recipe& recipe) const {
    check_recipe(recipe);
    if (further) further(recipe);
  }

  Recipe checked(std::span<const std::string> overrides) const {
    Recipe recipe = read(overrides);
    try {
      check(recipe);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", blamed(overrides), error.what()));
    }
    return recipe;
  }

  // What is wrong with these overrides; empty if nothing is.
  std::string complaint(std::span<const std::string> overrides) const {
    try {
      check(read(overrides));
      return {};
    } catch (const UsageError& error) {
      return error.what();
    }
  }

  // Where a contradiction comes from: overrides, or the document.
  std::string blamed(std::span<const std::string> overrides) const {
    const StringList wrong =
        blamed_overrides({overrides.begin(), overrides.end()},
                         [this](std::span<const std::string> fewer) { return complaint(fewer); });
    if (wrong.empty()) return std::string(origin);
    return fmt::format("override '{}'", fmt::join(wrong, "' and '"));
  }
};

bool is_text_to_train_on(std::string_view file) {
  for (const std::string_view packed : {".gz", ".zst"}) {
    if (file.ends_with(packed)) file.remove_suffix(packed.size());
  }
  return file.ends_with(".txt") || file.ends_with(".jsonl");
}

// Newcomers give the text that they want to train on in place of a recipe.
toml::table parse_recipe_file(std::string_view text, std::string_view origin) {
  try {
    return parse_toml(text, origin);
  } catch (const UsageError& error) {
    if (origin.ends_with(".toml")) throw;
    if (is_text_to_train_on(origin)) {
      throw UsageError(
          fmt::format("{}; a recipe is one, and names the text to train on: data.text = [\"{}\"]",
                      error.what(), origin));
    }
    throw UsageError(fmt::format(
        "{}; a recipe is one, in which a field stands in its table, as in:\n[train]\nsteps = 2000",
        error.what()));
  }
}

}  // namespace

Recipe parse_recipe(std::string_view toml, std::string_view origin,
                    std::span<const std::string> overrides, const MethodSections& methods,
                    const Check& further, const Renames& renames) {
  return Reader{parse_recipe_file(toml, origin), origin, methods, further, renames}.checked(
      overrides);
}

Recipe parse_recipe(std::string_view toml, std::string_view origin,
                    std::span<const std::string> overrides, const MethodSections& methods,
                    const Check& further) {
  return parse_recipe(toml, origin, overrides, methods, further, recipe_renames());
}

Recipe parse_recipe(std::string_view toml, std::string_view origin,
                    std::span<const std::string> overrides, const MethodSections& methods) {
  return parse_recipe(toml, origin, overrides, methods, {});
}

Recipe read_recipe(std::span<const std::string> overrides, const MethodSections& methods) {
  return Reader{{}, "command line", methods, {}, recipe_renames()}.read(overrides);
}

std::vector<std::unique_ptr<Section>> load_table_list(const std::filesystem::path& file,
                                                      const std::string& name,
                                                      const Section& prototype) {
  const std::string origin = file.string();
  if (!fs::is_regular_file(file)) throw UsageError(fmt::format("there is no file {}", origin));
  return parse_table_list(read_text_file(file), origin, name, prototype);
}

std::vector<std::unique_ptr<Section>> parse_table_list(std::string_view toml,
                                                       const std::string& origin,
                                                       const std::string& name,
                                                       const Section& prototype) {
  const toml::table document = parse_toml(toml, origin);
  std::vector<std::unique_ptr<Section>> sections;
  for (const auto& [key, node] : document) {
    at_place(place_of(origin, key.source()), [&, &found = key, &value = node] {
      if (found.str() == name && value.is_array_of_tables()) return;
      throw UsageError(fmt::format("'{}' must be a table [[{}]]; the file is a list of them",
                                   found.str(), name));
    });
    for (const toml::node& element : *node.as_array()) {
      sections.push_back(prototype.clone());
      const std::vector<Table> tables = {table_of(name, *sections.back())};
      StringList none;
      NamesRead names({}, none);
      read_table(tables, names, name, *element.as_table(), origin);
    }
  }
  if (sections.empty()) throw UsageError(fmt::format("{}: there is no [[{}]]", origin, name));
  return sections;
}

}  // namespace thinwire::config
