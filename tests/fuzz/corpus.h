// The saved inputs of a fuzz target: files in tests/fuzz/corpus/NAME, which libFuzzer begins with.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "thinwire/base/bytes.h"

namespace thinwire::tests {

inline std::vector<Bytes> saved_corpus(const std::string& name) {
  std::vector<Bytes> inputs;
  for (const auto& file :
       std::filesystem::directory_iterator(source_file("tests/fuzz/corpus/" + name))) {
    std::ifstream in(file.path(), std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  std::ranges::sort(inputs);
  return inputs;
}

}  // namespace thinwire::tests
