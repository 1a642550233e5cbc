// Text that is given twice. Its second copy would be trained on while the first is held out, and
// the validation loss would mean nothing; so it is refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "thinwire/data/text.h"

namespace thinwire::data {

// Throws Error that names both paths where two of them are one file, links followed.
void refuse_same_file(const std::vector<InputFile>& files);

// Tells files of equal text, however they are compressed, by the digest of what was read of them.
class TextDigests {
 public:
  void add(const fs::path& file, uint64_t digest);
  // Throws Error that names files of equal text if there were any.
  void refuse_equal() const;

 private:
  std::map<uint64_t, fs::path> files_;
  std::vector<std::string> equal_;  // "a.txt and a.txt.gz"
};

}  // namespace thinwire::data
