// Texts with places for a record's fields: "Question: {question.stem}\nAnswer:".
//
// A place names a field by its path in the record, keys joined by dots. A key that ends in []
// stands for a list and gives one text for each of its elements; a template may have at most one
// such key. Edits may follow the path, each after a bar: strip, capitalize,
// before_blank and after_blank (what is before and after the first "_"), before_last_word and
// last_word (words being separated by single spaces).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::eval {

class TextTemplate {
 public:
  // Throws UsageError quoting the text, for an unmatched brace, an unknown edit or a second list.
  explicit TextTemplate(const std::string& text);

  // The texts it gives for a record, one unless it names a list. Throws Error naming the field that
  // is missing or is neither text nor a whole number.
  std::vector<std::string> fill(const nlohmann::json& record) const;

 private:
  struct Part {
    std::string literal;            // before the place
    std::vector<std::string> path;  // empty: no place
    std::vector<std::string> edits;
  };

  static std::vector<std::string> values(const nlohmann::json& record, const Part& part);

  std::vector<Part> parts_;
};

// What evaluation tasks do to texts before a model sees them, as the LM evaluation harness does.

// Bytes of white space at the end of a text: characters for which Python's str.isspace() is true.
// UTF-8.
size_t trailing_space(std::string_view text);
// Without white space at its beginning and end.
std::string strip(std::string_view text);

// The first letter in upper case, the others in lower case; only ASCII letters change.
std::string capitalize(std::string_view text);

// Removes the traces of WikiHow's mark-up: strips, makes " [title]" a full stop, removes other text
// in brackets and makes double spaces single.
std::string clean_wikihow(std::string_view text);

// Characters, as Python's len() counts them. UTF-8.
int64_t characters(std::string_view text);
// Words, as the harness counts them: one more than there are runs of white space.
int64_t words(std::string_view text);

}  // namespace thinwire::eval
