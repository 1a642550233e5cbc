// Computes the expressions of a template (syntax.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "thinwire/data/chat/builtins.h"
#include "thinwire/data/chat/syntax.h"

namespace thinwire::data::chat {

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
