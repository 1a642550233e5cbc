// Text given twice is refused: one copy might be trained on while the other is held out, and the
// validation loss would mean nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "thinwire/data/text.h"

namespace thinwire::data {

// Throws Error naming both paths if two of them are the same file, following links.
void refuse_same_file(const std::vector<InputFile>& files);

// Detects files of equal text, however they are compressed, by the digests of their contents.
class TextDigests {
 public:
  void add(const fs::path& file, uint64_t digest);
  // Throws Error naming the files of equal text if there are any.
  void refuse_equal() const;

 private:
  std::map<uint64_t, fs::path> files_;
  std::vector<std::string> equal_;  // "a.txt and a.txt.gz"
};

}  // namespace thinwire::data
