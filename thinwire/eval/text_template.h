// Texts with places for a record's fields: "Question: {question.stem}\nAnswer:".
//
// A place names a field by its path in the record, keys joined by dots. A key that ends in []
// stands for a list and gives one text for each of its elements; a template may have at most one
// such key. Edits may follow the path, each after a bar: strip, capitalize (text_edits.h),
// before_blank and after_blank (what is before and after the first "_"), before_last_word and
// last_word (words being separated by single spaces).
#pragma once

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

}  // namespace thinwire::eval
