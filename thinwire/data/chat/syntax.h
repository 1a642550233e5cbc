// What a template (chat_template.h) is made of: tokens, expressions and statements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thinwire::data::chat {

// None is null; undefined is nlohmann's discarded.
using Value = nlohmann::ordered_json;

enum class TokenKind : uint8_t { kName, kNumber, kString, kOperator, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // of a string: its value
};

// A piece of a template.
struct Piece {
  enum class Kind : uint8_t { kText, kOutput, kStatement };
  Kind kind = Kind::kText;
  std::string text;           // of kText
  std::vector<Token> tokens;  // else, kEnd last
  size_t line = 1;
};

// Throws Error naming the line.
std::vector<Piece> lex_template(std::string source);

enum class ExpressionKind : uint8_t {
  kLiteral,     // value
  kName,        // text
  kList,        // parts
  kDictionary,  // parts: key, value, key, value ...
  kUnary,       // text: - or not; parts: 1
  kBinary,      // text: the operator; parts: 2
  kChoice,      // parts: condition, then, else (may be absent)
  kAttribute,   // parts: object; text: name
  kItem,        // parts: object, index
  kSlice,       // parts: object, from, to, step, each a literal none where left out
  kCall,        // parts: what is called, arguments; named
  kFilter,      // text; parts: input, arguments; named
  kTest,        // text; parts: input, arguments
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kLiteral;
  std::string text = {};
  Value value = {};
  std::vector<Expression> parts = {};
  std::vector<std::pair<std::string, Expression>> named = {};
};

struct Statement;
using Body = std::vector<Statement>;

struct Statement {
  enum class Kind : uint8_t {
    kText,        // text
    kOutput,      // expressions: 1
    kIf,          // expressions: conditions; bodies: one each, then else's if there is one
    kFor,         // names; expressions: what, and the condition if any; bodies: 1, else's if any
    kSet,         // names: 1, or a namespace and its attribute; expressions: 1
    kGeneration,  // bodies: 1
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  size_t line = 1;
  std::string text = {};
  std::vector<std::string> names = {};
  std::vector<Expression> expressions = {};
  std::vector<Body> bodies = {};
};

Body parse_template(const std::vector<Piece>& pieces);
// From tokens[at] on, which is moved behind the expression.
Expression parse_expression(const std::vector<Token>& tokens, size_t& at);

}  // namespace thinwire::data::chat
