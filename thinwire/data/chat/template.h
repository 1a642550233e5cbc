// Jinja templates, as far as chat templates need them, rendered as transformers renders them (trim
// and strip the lines of blocks; https://jinja.palletsprojects.com/en/stable/templates/).
//
// Statements: if, for (with a condition, else, break, continue and loop), set (also of an attribute
// of a namespace), generation. Expressions: literals, lists, dictionaries, attributes, items,
// slices, arithmetic, ~, comparisons, in, not, and, or, "a if b else c", the filters, tests,
// methods and functions listed in builtins.cpp. Everything else (macros, imports, the current date)
// is an error that names it, either when the template is read or when rendering reaches it.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "thinwire/data/records.h"

namespace thinwire::data {

struct Rendered {
  std::string text;
  std::vector<TextPart> generated;  // what {% generation %} blocks wrote
};

// Thread-safe.
class Template {
 public:
  // Throws Error that names the line.
  explicit Template(const std::string& source);
  ~Template();
  Template(Template&&) noexcept;

  // variables: an object. Throws Error for what the template refuses (raise_exception) or asks for
  // that is not supported.
  Rendered render(const nlohmann::ordered_json& variables) const;
  // Whether it has {% generation %} blocks.
  bool marks_generation() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace thinwire::data
