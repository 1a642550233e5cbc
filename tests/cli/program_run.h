// Runs the program within a test, with nothing on its standard input.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "thinwire/cli/program.h"

namespace thinwire::cli {

struct ProgramRun {
  int status = 0;
  std::string out;
  std::string err;
};

inline ProgramRun run_thinwire(const std::vector<std::string>& arguments) {
  std::vector<const char*> words = {"thinwire"};
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  EXPECT_NE(std::freopen("/dev/null", "r", stdin), nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  ProgramRun run;
  run.status = run_program(static_cast<int>(words.size()), words.data());
  std::fflush(stdout);
  std::fflush(stderr);
  run.out = testing::internal::GetCapturedStdout();
  run.err = testing::internal::GetCapturedStderr();
  return run;
}

}  // namespace thinwire::cli
