// Computes the expressions of a template (syntax.h).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/data/chat/syntax.h"

namespace thinwire::data::chat {

// What templates (chat_template.h) can call: filters, tests, methods and functions, as in Jinja and
// Python. All throw Error for a name that is not supported and for values of other types than they
// take. Letters are changed in ASCII text only.
struct Arguments {
  std::vector<Value> values;
  std::vector<std::pair<std::string, Value>> named = {};

  // The argument at `index` or of this name; undefined if there is none.
  Value get(size_t index, const std::string& name) const;
};

Value undefined();
bool is_true(const Value& value);
// As {{ value }} writes it.
std::string printed(const Value& value);
// "text", "a list" ...
std::string kind_of(const Value& value);

Value filtered(const std::string& filter, const Value& input, const Arguments& arguments);
bool passes(const std::string& test, const Value& input, const Arguments& arguments);
// object.method(...)
Value call_method(const Value& object, const std::string& method, const Arguments& arguments);
// range, namespace, dict, raise_exception
Value call_function(const std::string& function, const Arguments& arguments);

// The characters of a text; the text must be UTF-8.
std::vector<std::string> characters(const std::string& text);

// The variables, innermost scope last; a loop's body is a scope, as in Jinja.
class Scopes {
 public:
  explicit Scopes(const Value& variables);

  void open() { scopes_.emplace_back(); }
  void close() { scopes_.pop_back(); }
  // Null if there is none.
  Value* find(const std::string& name);
  void set(const std::string& name, Value value) { scopes_.back()[name] = std::move(value); }

 private:
  std::vector<std::map<std::string, Value>> scopes_;
};

// Throws Error for what is not supported and for values of the wrong type.
Value evaluate(const Expression& expression, Scopes& scopes);

}  // namespace thinwire::data::chat
