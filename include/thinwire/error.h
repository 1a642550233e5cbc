// The exceptions that Thinwire throws: sentences for the user.
#pragma once

#include <stdexcept>

namespace thinwire {

// Something failed although the program was used correctly: a full disk, a damaged file, a lost
// connection. `thinwire` ends with exit status 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What was asked for is wrong: a field of a recipe, an option, an argument. The text names it, its
// value and what would be right. `thinwire` ends with exit status 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace thinwire
