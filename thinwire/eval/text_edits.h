// What evaluation tasks do to texts before a model sees them, as the LM evaluation harness does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thinwire::eval {

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
