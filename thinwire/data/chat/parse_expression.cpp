#include <fmt/format.h>

#include <array>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/data/chat/syntax.h"

namespace thinwire::data::chat {
namespace {

using Kind = ExpressionKind;

// Recursive descent, in Jinja's order of precedence.
class Parser {
 public:
  Parser(const std::vector<Token>& tokens, size_t& at) : tokens_(tokens), at_(at) {}

  Expression choice() {
    Expression then = either();
    while (take_name("if")) {
      Expression result{Kind::kChoice};
      result.parts.push_back(either());
      result.parts.push_back(std::move(then));
      if (take_name("else")) result.parts.push_back(choice());
      then = std::move(result);
    }
    return then;
  }

 private:
  const Token& now() const { return tokens_[at_]; }
  bool is(std::string_view op) const {
    return now().kind == TokenKind::kOperator && now().text == op;
  }
  bool is_name(std::string_view name) const {
    return now().kind == TokenKind::kName && now().text == name;
  }
  bool take(std::string_view op) {
    if (!is(op)) return false;
    ++at_;
    return true;
  }
  bool take_name(std::string_view name) {
    if (!is_name(name)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view op) {
    if (!take(op)) refuse(fmt::format("'{}' is expected", op));
  }
  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(now().kind == TokenKind::kEnd ? fmt::format("{} at the end", why)
                                              : fmt::format("{} before '{}'", why, now().text));
  }

  static Expression binary(std::string op, Expression left, Expression right) {
    Expression result{Kind::kBinary, std::move(op)};
    result.parts.push_back(std::move(left));
    result.parts.push_back(std::move(right));
    return result;
  }
  static Expression wrap(Kind kind, std::string text, Expression inner) {
    Expression result{kind, std::move(text)};
    result.parts.push_back(std::move(inner));
    return result;
  }

  Expression either() {
    Expression left = both();
    while (take_name("or")) left = binary("or", std::move(left), both());
    return left;
  }
  Expression both() {
    Expression left = negation();
    while (take_name("and")) left = binary("and", std::move(left), negation());
    return left;
  }
  Expression negation() {
    if (take_name("not")) return wrap(Kind::kUnary, "not", negation());
    return comparison();
  }
  Expression comparison() {
    Expression left = sum();
    bool compared = false;
    while (true) {
      std::string op;
      if (now().kind == TokenKind::kOperator) {
        for (const std::string_view known : {"==", "!=", "<", ">", "<=", ">="}) {
          if (is(known)) op = known;
        }
        if (!op.empty()) ++at_;
      } else if (take_name("in")) {
        op = "in";
      } else if (is_name("not") && tokens_[at_ + 1].text == "in") {
        at_ += 2;
        op = "not in";
      }
      if (op.empty()) return left;
      if (compared) refuse("a chain of comparisons is not supported");
      compared = true;
      left = binary(op, std::move(left), sum());
    }
  }

  template <typename Next>
  Expression left_to_right(std::initializer_list<const char*> ops, const Next& next) {
    Expression left = next();
    while (true) {
      const char* found = nullptr;
      for (const char* op : ops) {
        if (found == nullptr && take(op)) found = op;
      }
      if (found == nullptr) return left;
      left = binary(found, std::move(left), next());
    }
  }
  Expression sum() {
    return left_to_right({"+", "-"}, [this] { return joined(); });
  }
  Expression joined() {
    return left_to_right({"~"}, [this] { return product(); });
  }
  Expression product() {
    return left_to_right({"*", "//", "/", "%"}, [this] { return filtered(true); });
  }

  Expression filtered(bool with_filters) {
    Expression result;
    if (take("-")) {
      result = wrap(Kind::kUnary, "-", filtered(false));
    } else {
      result = postfix(primary());
    }
    while (with_filters) {
      if (take("|")) {
        result = wrap(Kind::kFilter, name(), std::move(result));
        if (take("(")) arguments(result);
      } else if (take_name("is")) {
        result = test(std::move(result));
      } else {
        break;
      }
    }
    return result;
  }

  Expression test(Expression input) {
    const bool negated = take_name("not");
    Expression result = wrap(Kind::kTest, name(), std::move(input));
    const bool word = now().kind == TokenKind::kName && !is_name("and") && !is_name("or") &&
                      !is_name("else") && !is_name("if") && !is_name("is") && !is_name("not") &&
                      !is_name("in");
    if (take("(")) {
      arguments(result);
    } else if (word || now().kind == TokenKind::kNumber || now().kind == TokenKind::kString ||
               is("[")) {
      result.parts.push_back(postfix(primary()));
    }
    return negated ? wrap(Kind::kUnary, "not", std::move(result)) : std::move(result);
  }

  std::string name() {
    if (now().kind != TokenKind::kName) refuse("a name is expected");
    return tokens_[at_++].text;
  }

  // Up to the closing parenthesis.
  void arguments(Expression& call) {
    while (!take(")")) {
      if (now().kind == TokenKind::kName && tokens_[at_ + 1].kind == TokenKind::kOperator &&
          tokens_[at_ + 1].text == "=") {
        std::string key = name();
        ++at_;
        call.named.emplace_back(std::move(key), choice());
      } else {
        call.parts.push_back(choice());
      }
      if (!is(")")) expect(",");
    }
  }

  Expression postfix(Expression result) {
    while (true) {
      if (take(".")) {
        result = wrap(Kind::kAttribute, name(), std::move(result));
      } else if (take("[")) {
        result = subscript(std::move(result));
      } else if (take("(")) {
        result = wrap(Kind::kCall, {}, std::move(result));
        arguments(result);
      } else {
        return result;
      }
    }
  }

  Expression subscript(Expression object) {
    std::array<Expression, 3> bounds;
    size_t bound = 0;
    while (!is("]")) {
      if (take(":")) {
        if (++bound == bounds.size()) refuse("a slice has at most 3 parts");
      } else {
        bounds[bound] = choice();
      }
    }
    expect("]");
    Expression result = wrap(bound == 0 ? Kind::kItem : Kind::kSlice, {}, std::move(object));
    for (size_t i = 0; i < (bound == 0 ? 1 : bounds.size()); ++i) {
      result.parts.push_back(std::move(bounds[i]));
    }
    return result;
  }

  Expression primary() {
    const Token token = now();
    if (token.kind == TokenKind::kString) return string();
    if (token.kind == TokenKind::kEnd) refuse("an expression is expected");
    ++at_;
    if (token.kind == TokenKind::kNumber) {
      return {Kind::kLiteral, {}, parse_json<Value>(token.text)};
    }
    if (token.kind == TokenKind::kName) {
      if (token.text == "true" || token.text == "True") return {Kind::kLiteral, {}, true};
      if (token.text == "false" || token.text == "False") return {Kind::kLiteral, {}, false};
      if (token.text == "none" || token.text == "None") return {Kind::kLiteral, {}, nullptr};
      return {Kind::kName, token.text};
    }
    if (token.text == "(") {
      Expression result = choice();
      if (is(",")) refuse("a tuple is not supported");
      expect(")");
      return result;
    }
    if (token.text == "[") return list();
    if (token.text == "{") return dictionary();
    --at_;
    refuse("an expression is expected");
  }

  // Strings next to each other are one.
  Expression string() {
    std::string text;
    while (now().kind == TokenKind::kString) text += tokens_[at_++].text;
    return {Kind::kLiteral, {}, std::move(text)};
  }
  Expression list() {
    Expression result{Kind::kList};
    while (!take("]")) {
      result.parts.push_back(choice());
      if (!is("]")) expect(",");
    }
    return result;
  }
  Expression dictionary() {
    Expression result{Kind::kDictionary};
    while (!take("}")) {
      result.parts.push_back(choice());
      expect(":");
      result.parts.push_back(choice());
      if (!is("}")) expect(",");
    }
    return result;
  }

  const std::vector<Token>& tokens_;
  size_t& at_;
};

}  // namespace

Expression parse_expression(const std::vector<Token>& tokens, size_t& at) {
  return Parser(tokens, at).choice();
}

}  // namespace thinwire::data::chat
