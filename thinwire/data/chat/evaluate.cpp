#include "thinwire/data/chat/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ranges>

#include "thinwire/base/error.h"

namespace thinwire::data::chat {
namespace {

using Kind = ExpressionKind;

// Gives 'op' of two numbers.
Value arithmetic(const std::string& op, const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) {
    throw Error(fmt::format("{} of {} and {} is not supported", op, kind_of(a), kind_of(b)));
  }
  if (op == "/") return a.get<double>() / b.get<double>();
  if (!a.is_number_integer() || !b.is_number_integer()) {
    throw Error(fmt::format("{} of fractions is not supported", op));
  }
  const auto x = a.get<int64_t>();
  const auto y = b.get<int64_t>();
  if (op == "+") return x + y;
  if (op == "-") return x - y;
  if (op == "*") return x * y;
  if (y == 0) throw Error("a division by 0");
  const int64_t floor = x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0);
  return op == "//" ? floor : x - floor * y;
}

bool contains(const Value& in, const Value& what) {
  if (in.is_string() && what.is_string()) {
    return in.get_ref<const std::string&>().find(what.get_ref<const std::string&>()) !=
           std::string::npos;
  }
  if (in.is_array()) return std::find(in.begin(), in.end(), what) != in.end();
  if (in.is_object()) return what.is_string() && in.contains(what.get<std::string>());
  throw Error(fmt::format("in needs text, a list or a dictionary, got {}", kind_of(in)));
}

Value less(const std::string& op, const Value& a, const Value& b) {
  if (!(a.is_number() && b.is_number()) && !(a.is_string() && b.is_string())) {
    throw Error(fmt::format("{} of {} and {} is not supported", op, kind_of(a), kind_of(b)));
  }
  if (op == "<") return a < b;
  if (op == ">") return a > b;
  return op == "<=" ? a <= b : a >= b;
}

bool same(const Value& a, const Value& b) {
  return a.is_discarded() || b.is_discarded() ? a.is_discarded() && b.is_discarded() : a == b;
}

Value binary(const Expression& expression, Scopes& scopes) {
  const std::string& op = expression.text;
  Value a = evaluate(expression.parts[0], scopes);
  if (op == "and" && !is_true(a)) return a;
  if (op == "or" && is_true(a)) return a;
  Value b = evaluate(expression.parts[1], scopes);
  if (op == "and" || op == "or") return b;
  if (op == "~") return printed(a) + printed(b);
  if (op == "==") return same(a, b);
  if (op == "!=") return !same(a, b);
  if (op == "in") return contains(b, a);
  if (op == "not in") return !contains(b, a);
  if (op == "<" || op == ">" || op == "<=" || op == ">=") return less(op, a, b);
  if (op == "+" && a.is_string() && b.is_string()) {
    return a.get<std::string>() + b.get<std::string>();
  }
  if (op == "+" && a.is_array() && b.is_array()) {
    for (Value& value : b) a.push_back(std::move(value));
    return a;
  }
  return arithmetic(op, a, b);
}

Value item(const Value& object, const Value& index) {
  if (object.is_object() && index.is_string()) {
    const auto found = object.find(index.get<std::string>());
    return found == object.end() ? undefined() : *found;
  }
  if (object.is_discarded())
    throw Error(fmt::format("an item of {} is asked for", kind_of(object)));
  if (!index.is_number_integer() || !(object.is_array() || object.is_string())) return undefined();
  const Value list = filtered("list", object, {});
  auto at = index.get<int64_t>();
  if (at < 0) at += static_cast<int64_t>(list.size());
  if (at < 0 || at >= static_cast<int64_t>(list.size())) return undefined();
  return list[static_cast<size_t>(at)];
}

Value slice(const Expression& expression, Scopes& scopes) {
  const Value object = evaluate(expression.parts[0], scopes);
  const Value list = filtered("list", object, {});
  const auto size = static_cast<int64_t>(list.size());
  const auto bound = [&](size_t part) -> std::optional<int64_t> {
    const Value value = evaluate(expression.parts[part], scopes);
    if (value.is_null()) return std::nullopt;
    if (!value.is_number_integer()) throw Error("a slice needs whole numbers");
    return value.get<int64_t>();
  };
  const int64_t step = bound(3).value_or(1);
  if (step == 0) throw Error("a slice with a step of 0");
  const int64_t lowest = step > 0 ? 0 : -1;
  const auto place = [&](size_t part, int64_t otherwise) {
    const std::optional<int64_t> at = bound(part);
    if (!at) return otherwise;
    return std::clamp(*at < 0 ? *at + size : *at, lowest, step > 0 ? size : size - 1);
  };
  const int64_t from = place(1, step > 0 ? 0 : size - 1);
  const int64_t to = place(2, step > 0 ? size : -1);
  Value part = Value::array();
  for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
    part.push_back(list[static_cast<size_t>(i)]);
  }
  return object.is_string() ? filtered("join", part, {}) : part;
}

Arguments arguments_of(const Expression& expression, Scopes& scopes) {
  Arguments arguments;
  for (const Expression& part : expression.parts | std::views::drop(1)) {
    arguments.values.push_back(evaluate(part, scopes));
  }
  for (const auto& [name, value] : expression.named) {
    arguments.named.emplace_back(name, evaluate(value, scopes));
  }
  return arguments;
}

Value call(const Expression& expression, Scopes& scopes) {
  const Expression& callee = expression.parts[0];
  const Arguments arguments = arguments_of(expression, scopes);
  if (callee.kind == Kind::kName) return call_function(callee.text, arguments);
  if (callee.kind != Kind::kAttribute) throw Error("a call of a value is not supported");
  return call_method(evaluate(callee.parts[0], scopes), callee.text, arguments);
}

Value attribute(const Expression& expression, Scopes& scopes) {
  const Value object = evaluate(expression.parts[0], scopes);
  if (object.is_discarded()) {
    throw Error(fmt::format("{} of something undefined is asked for", expression.text));
  }
  return item(object, expression.text);
}

Value unary(const Expression& expression, Scopes& scopes) {
  const Value value = evaluate(expression.parts[0], scopes);
  return expression.text == "not" ? Value(!is_true(value)) : arithmetic("-", 0, value);
}

Value collection(const Expression& expression, Scopes& scopes) {
  if (expression.kind == Kind::kList) {
    Value list = Value::array();
    for (const Expression& part : expression.parts) list.push_back(evaluate(part, scopes));
    return list;
  }
  Value object = Value::object();
  for (size_t i = 0; i < expression.parts.size(); i += 2) {
    object[printed(evaluate(expression.parts[i], scopes))] =
        evaluate(expression.parts[i + 1], scopes);
  }
  return object;
}

Value choice(const Expression& expression, Scopes& scopes) {
  if (is_true(evaluate(expression.parts[0], scopes))) return evaluate(expression.parts[1], scopes);
  return expression.parts.size() > 2 ? evaluate(expression.parts[2], scopes) : undefined();
}

}  // namespace

Scopes::Scopes(const Value& variables) {
  open();
  for (const auto& [name, value] : variables.items()) set(name, value);
}

Value* Scopes::find(const std::string& name) {
  for (auto& scope : scopes_ | std::views::reverse) {
    const auto found = scope.find(name);
    if (found != scope.end()) return &found->second;
  }
  return nullptr;
}

Value evaluate(const Expression& expression, Scopes& scopes) {
  switch (expression.kind) {
    case Kind::kLiteral:
      return expression.value;
    case Kind::kName: {
      const Value* const value = scopes.find(expression.text);
      return value == nullptr ? undefined() : *value;
    }
    case Kind::kList:
    case Kind::kDictionary:
      return collection(expression, scopes);
    case Kind::kUnary:
      return unary(expression, scopes);
    case Kind::kBinary:
      return binary(expression, scopes);
    case Kind::kChoice:
      return choice(expression, scopes);
    case Kind::kAttribute:
      return attribute(expression, scopes);
    case Kind::kItem:
      return item(evaluate(expression.parts[0], scopes), evaluate(expression.parts[1], scopes));
    case Kind::kSlice:
      return slice(expression, scopes);
    case Kind::kCall:
      return call(expression, scopes);
    case Kind::kFilter:
      return filtered(expression.text, evaluate(expression.parts[0], scopes),
                      arguments_of(expression, scopes));
    case Kind::kTest:
      return passes(expression.text, evaluate(expression.parts[0], scopes),
                    arguments_of(expression, scopes));
  }
  return undefined();
}

}  // namespace thinwire::data::chat
