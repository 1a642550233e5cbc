// Recipe fields. A section describes each of its members once (name, unit, range, sentence); that
// one description parses TOML, applies overrides, checks ranges, prints the resolved recipe and
// explains it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/base/names.h"

namespace thinwire::config {

struct Recipe;

using StringList = std::vector<std::string>;

// The upper limit of fields without one.
inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A value of an enumeration, as its underlying byte, and the names of all values (base/names.h).
struct NamedTarget {
  uint8_t* value = nullptr;
  std::span<const std::string_view> names;

  std::string_view name() const { return names[*value]; }
  uint8_t& operator*() const { return *value; }
};

// The variable that holds a field's value.
using FieldTarget = std::variant<int64_t*, double*, bool*, std::string*, StringList*, NamedTarget>;

// Its texts are literals, because recipes are described often and copies would take most of the
// time.
struct Field {
  std::string_view name;
  FieldTarget target;
  std::string_view unit;      // "steps", "rows", "bit/s", ...; empty if it has none
  std::string_view sentence;  // what it means, one sentence
  double min = -kInfinity;
  double max = kInfinity;
  bool min_open = false;  // the value must be greater than min, not equal
  StringList choices;     // allowed texts; empty: any
};

// "table.name".
std::string key_of(std::string_view table, const Field& field);

// Collects the fields of one section. Ranges are inclusive.
class Fields {
 public:
  void integer(const char* name, int64_t& value, const char* unit, int64_t min, int64_t max,
               const char* sentence);
  void number(const char* name, double& value, const char* unit, double min, double max,
              const char* sentence);
  // As number, but the value must be greater than min.
  void number_above(const char* name, double& value, const char* unit, double min, double max,
                    const char* sentence);
  void flag(const char* name, bool& value, const char* sentence);
  void text(const char* name, std::string& value, const char* sentence);
  // A value of an enumeration of which only `choices` are allowed, listed in this order.
  template <Named E>
  void choice(const char* name, E& value, std::initializer_list<E> choices, const char* sentence) {
    StringList allowed;
    for (const E choice : choices) allowed.emplace_back(name_of(choice));
    named(name, {reinterpret_cast<uint8_t*>(&value), names_of(value)}, std::move(allowed),
          sentence);
  }
  // The same, with all values allowed.
  template <Named E>
  void choice(const char* name, E& value, const char* sentence) {
    const std::span<const std::string_view> names = names_of(value);
    named(name, {reinterpret_cast<uint8_t*>(&value), names}, StringList(names.begin(), names.end()),
          sentence);
  }
  void list(const char* name, StringList& value, const char* sentence);

  const std::vector<Field>& all() const { return fields_; }

 private:
  void named(const char* name, NamedTarget value, StringList choices, const char* sentence);

  std::vector<Field> fields_;
};

// A table of a recipe, e.g. [train]. Methods, optimizers and architectures bring their own sections
// (see method/method.h, method/optimizers/optimizer.h and method/architectures/architecture.h).
class Section {
 public:
  virtual ~Section() = default;
  // Lists every field, bound to this object's members, whose current values are the defaults.
  virtual void describe(Fields& fields) = 0;
  virtual std::unique_ptr<Section> clone() const = 0;
  // For a section that a method, an optimizer or an architecture brings, named after it: the recipe
  // field that chooses it by name.
  virtual std::string_view chosen_by() const { return "sync.method"; }
  // For the chosen architecture's section: derives the fields left at 0 from the recipe's other
  // fields.
  virtual void fill_derived(const Recipe&) {}
};

// Implements clone() for a copyable section.
template <typename Derived>
class SectionOf : public Section {
 public:
  std::unique_ptr<Section> clone() const override {
    // Not make_unique<Derived>, whose pointer type every source would compile for each section.
    return std::unique_ptr<Section>(new Derived(static_cast<const Derived&>(*this)));
  }
};

}  // namespace thinwire::config
