// The arguments of a call in a plan (function_plan.h), in a form in which those that mean the same
// are the same text.
//
// Values are written as in Python: texts in single, double or triple quotes, with escapes; numbers;
// True, False, None; lists, tuples and dictionaries. `name=value` is a keyword argument. Words
// without quotes are a text, too. There are no expressions: operators, nested calls, f-strings.
//
// A value that is `$k` or `${k}`, with or without quotes, is a reference to call k, which must be
// an earlier one. Within a longer text it is a reference if call k is an earlier one; if not, it is
// text, such as an amount of money.
//
// Normalized:
// * texts: without quotes' kind, escapes, and white space at their beginning and end
// * numbers: by value (60, 60.0 and 6e1 are the same), and never the same as a text
// * True and true; None and null; tuples and lists
// * keyword arguments: ordered by name, after the positional ones, whose order counts. A keyword
//   argument is never the same as a positional one, because a plan does not say what parameters a
//   tool has.
// * dictionaries: ordered by key. Keys are without references.
// * references: which call is meant is listed apart from the text
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::eval {

struct CallArguments {
  std::string text;             // normalized
  std::vector<int> references;  // the numbers of calls, in the text's order
  size_t end = 0;               // of what was read: the place after the closing bracket
};

// The arguments that begin at `begin` in a line, after the opening bracket. is_earlier says whether
// an earlier call has a number. Throws Error for what is not written like that, for a name or key
// that appears twice, and for lists in more than 32 others.
CallArguments read_arguments(std::string_view line, size_t begin,
                             const std::function<bool(int)>& is_earlier);

}  // namespace thinwire::eval
