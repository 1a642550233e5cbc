// What tests expect of exceptions.
#pragma once

#include <string>

#include "thinwire/base/error.h"

namespace thinwire::tests {

inline constexpr const char* kNoError = "no error";

// The message of the Error that the action throws; kNoError: it throws none. Other exceptions pass.
template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return kNoError;
}

}  // namespace thinwire::tests
