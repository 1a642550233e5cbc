// Recipe fields. A section describes each of its members once (name, unit, range, sentence); that
// one description parses TOML, applies overrides, checks ranges, prints the resolved recipe and
// explains it.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace thinwire::config {

using StringList = std::vector<std::string>;

// Upper limit of fields that have none.
inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Where a field's value lives. Enumerations are strings with a list of choices.
using FieldTarget = std::variant<int64_t*, double*, bool*, std::string*, StringList*>;

struct Field {
  std::string name;
  FieldTarget target;
  std::string unit;      // "steps", "rows", "bit/s", ...; empty when it has none
  std::string sentence;  // what it means, one sentence
  double min = -kInfinity;
  double max = kInfinity;
  bool min_open = false;  // the value must be above min, not at it
  StringList choices;     // allowed strings; empty: any
};

// Collects the fields of one section. Ranges are inclusive.
class Fields {
 public:
  void integer(std::string name, int64_t& value, std::string unit, int64_t min, int64_t max,
               std::string sentence);
  void number(std::string name, double& value, std::string unit, double min, double max,
              std::string sentence);
  // As number, but the value must be greater than min.
  void number_above(std::string name, double& value, std::string unit, double min, double max,
                    std::string sentence);
  void flag(std::string name, bool& value, std::string sentence);
  void text(std::string name, std::string& value, std::string sentence);
  void choice(std::string name, std::string& value, StringList choices, std::string sentence);
  void list(std::string name, StringList& value, std::string sentence);

  const std::vector<Field>& all() const { return fields_; }

 private:
  std::vector<Field> fields_;
};

// A table of a recipe, e.g. [train]. Methods and optimizers bring their own sections (see
// method/method.h and method/optimizer.h).
class Section {
 public:
  virtual ~Section() = default;
  // Lists every field, bound to this object's members, whose present values are the defaults.
  virtual void describe(Fields& fields) = 0;
  virtual std::unique_ptr<Section> clone() const = 0;
  // Of a section that a method or an optimizer brought, whose table has its name: the field that
  // chooses it by that name.
  virtual std::string_view chosen_by() const { return "sync.method"; }
};

// Implements clone() for a copyable section.
template <typename Derived>
class SectionOf : public Section {
 public:
  std::unique_ptr<Section> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
};

}  // namespace thinwire::config
