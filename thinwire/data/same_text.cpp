#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "thinwire/base/error.h"
#include "thinwire/data/text.h"

namespace thinwire::data {
namespace {

constexpr const char* kReason =
    "text given twice would end up in both training and validation; give it once";

}  // namespace

void refuse_same_file(const std::vector<InputFile>& files) {
  std::map<fs::path, fs::path> known;
  for (const InputFile& file : files) {
    const auto [first, is_new] = known.emplace(fs::canonical(file.path), file.path);
    if (is_new) continue;
    if (first->second == file.path) {
      throw Error(fmt::format("{} is given twice; {}", file.path.string(), kReason));
    }
    throw Error(fmt::format("{} and {} are the same file; {}", first->second.string(),
                            file.path.string(), kReason));
  }
}

void TextDigests::add(const fs::path& file, uint64_t digest) {
  const auto [first, is_new] = files_.emplace(digest, file);
  if (!is_new) equal_.push_back(fmt::format("{} and {}", first->second.string(), file.string()));
}

void TextDigests::refuse_equal() const {
  constexpr size_t kNamed = 5;
  if (equal_.empty()) return;
  if (equal_.size() == 1) throw Error(fmt::format("{} hold the same text; {}", equal_[0], kReason));
  const auto named = std::span(equal_).first(std::min(equal_.size(), kNamed));
  throw Error(fmt::format("{} files hold the same text as another file; {}; the first are\n  {}",
                          equal_.size(), kReason, fmt::join(named, "\n  ")));
}

}  // namespace thinwire::data
