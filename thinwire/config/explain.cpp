#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/config/automatic.h"
#include "thinwire/config/check.h"
#include "thinwire/config/renamed.h"
#include "thinwire/config/values.h"

namespace thinwire::config {
namespace {

constexpr size_t kWrapColumns = 88;

void append_wrapped(std::string& out, std::string_view indent, std::string_view text) {
  out += wrapped(text, indent, indent, indent.size() + kWrapColumns);
}

void append_field(std::string& out, const Field& field, bool automatic) {
  StringList facts = {type_name(field) + (automatic ? " or \"auto\"" : "")};
  if (!field.unit.empty()) facts.push_back(fmt::format("in {}", field.unit));
  facts.push_back(automatic ? "default \"auto\"" : "default " + print_value(field));
  const std::string range = range_phrase(field);
  if (!range.empty()) facts.push_back(range);
  if (!field.choices.empty()) {
    facts.push_back(fmt::format("one of {}", fmt::join(field.choices, " | ")));
  }
  fmt::format_to(std::back_inserter(out), "  {}: {}\n", field.name, fmt::join(facts, "; "));
  append_wrapped(out, "      ", field.sentence);
}

class Explainer {
 public:
  Explainer(const Choices& choices, std::string_view what) : choices_(choices), what_(what) {}

  void add(const std::string& table, Section& section) {
    known_.push_back(table);
    Fields fields;
    section.describe(fields);
    std::string block;
    for (const Field& field : fields.all()) {
      const std::string name = key_of(table, field);
      known_.push_back(name);
      if (!what_.empty() && what_ != table && what_ != name && what_ != field.name) continue;
      append_field(block, field, is_automatic(name));
      append_choices(block, name);
    }
    const bool whole = what_.empty() || what_ == table;
    if (!whole && block.empty()) return;
    fmt::format_to(std::back_inserter(out_), "{}[{}]\n", out_.empty() ? "" : "\n", table);
    if (whole) append_choice(table);
    out_ += block;
  }

  // Empty if recipes have no such table or field.
  const std::string& text() const { return out_; }

  [[noreturn]] void refuse() const {
    const std::string near = nearest_name(what_, known_);
    throw UsageError(fmt::format("recipes have no table or field '{}'{}", what_,
                                 near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }

 private:
  void append_choices(std::string& out, const std::string& name) const {
    const auto found = choices_.find(name);
    if (found == choices_.end()) return;
    for (const auto& [value, sentence] : found->second) {
      append_wrapped(out, "        ", fmt::format("{}: {}", value, sentence));
    }
  }

  // The table of a choice, such as a method's, begins with what the choice does.
  void append_choice(const std::string& table) {
    for (const auto& [field, values] : choices_) {
      for (const auto& [value, sentence] : values) {
        if (value == table) append_wrapped(out_, "  ", sentence);
      }
    }
  }

  const Choices& choices_;
  std::string_view what_;
  StringList known_;
  std::string out_;
};

}  // namespace

std::string explain_recipe(const MethodSections& methods, const Choices& choices,
                           std::string_view what) {
  Recipe defaults;
  for (const auto& [table, section] : methods) defaults.methods[table] = section->clone();
  const auto explained = [&](std::string_view name) {
    Explainer explainer(choices, name);
    for (const auto& [table, section] : defaults.sections()) explainer.add(table, *section);
    return explainer;
  };
  const Explainer explainer = explained(what);
  if (!explainer.text().empty()) return explainer.text();
  const std::string old = recipe_renames().renamed_from(what);
  if (old.empty()) explainer.refuse();
  const std::string present = recipe_renames().present_key(old);
  return fmt::format("{} is now called {}.\n\n{}", old, present, explained(present).text());
}

std::string explain_recipe(const MethodSections& methods) {
  return explain_recipe(methods, {}, {});
}

std::string wrapped(std::string_view text, std::string_view first, std::string_view more,
                    size_t columns) {
  std::string out;
  while (!text.empty()) {
    const std::string_view indent = out.empty() ? first : more;
    const size_t room = columns - std::min(columns, indent.size());
    size_t end = text.size();
    if (end > room) end = text.rfind(' ', room);
    if (end == std::string_view::npos) end = std::min(text.find(' '), text.size());
    fmt::format_to(std::back_inserter(out), "{}{}\n", indent, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace thinwire::config
