// Tests of the LibTorch backend in a program that may have none.
#pragma once

#include <functional>
#include <string>

#include "thinwire/base/error.h"

namespace thinwire::model {

// Calls `body`. Returns why it could not do without LibTorch, a reason to skip a test; empty if it
// could.
inline std::string without_torch(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string why = error.what();
    if (why.find("without LibTorch") == std::string::npos) throw;
    return why;
  }
  return {};
}

}  // namespace thinwire::model
