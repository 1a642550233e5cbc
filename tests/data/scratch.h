// What the tests of this folder share: scratch folders, sample text, and looking for words in
// errors.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"

namespace thinwire::data {

// An empty folder of the running test.
inline fs::path scratch_folder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder = fs::path(testing::TempDir()) /
                          fmt::format("data_{}_{}", test->test_suite_name(), test->name());
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

// The message of the Error that action throws; a test failure and "" when it throws none.
template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

// Text with `documents` paragraphs of a few words each, no two alike.
inline std::string paragraphs(int documents) {
  constexpr std::string_view kWords[] = {"the",  "cat",   "sat",  "on",    "a",     "mat",
                                         "wire", "thick", "thin", "river", "stone", "walking"};
  std::string text;
  uint32_t state = 1;
  for (int document = 0; document < documents; ++document) {
    text += fmt::format("Entry {}:", document);
    for (int word = 0; word < 12; ++word) {
      state = state * 1664525u + 1013904223u;
      text += fmt::format(" {}", kWords[(state >> 16) % 12]);
    }
    text += ".\n\n";
  }
  return text;
}

}  // namespace thinwire::data
