// Makes a vocabulary and token shards of texts, as a recipe's [data] says and as `thinwire prepare`
// does (docs/recipes.md, "Text"). Target thinwire::core.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/recipe.h"

namespace thinwire {

struct PreparingOptions {
  // Replaces data that was prepared in the same folder from other texts or settings.
  bool force = false;
  // Called a few times a second, on the calling thread: what is being done, and the share of it
  // that is, from 0 to 1. May be empty.
  std::function<void(std::string_view phase, double share)> on_progress = {};
  // Called with what the user should know: one line of text, without the newline. May be empty.
  std::function<void(std::string_view)> on_message = {};
  // Set from anywhere, it ends the call, and nothing is left behind. May be null.
  const std::atomic<bool>* stop = nullptr;
};

struct PreparedSet {
  std::string name;  // "train", "validation", or a name of data.validation_text
  uint64_t documents = 0;
  uint64_t tokens = 0;
};

struct PreparedData {
  bool finished = false;   // false: stopped, and the rest is empty
  bool unchanged = false;  // the folder held the same texts, prepared with the same settings
  std::filesystem::path folder = {};
  int64_t vocabulary_size = 0;
  std::vector<PreparedSet> sets = {};  // train first
};

// Reads the texts twice, whatever their size, in memory that does not grow with them. Throws
// UsageError for a recipe without texts, and Error for texts that cannot be read and for a folder
// that holds something else, or other data without `force`. In each case the folder is as it was.
PreparedData prepare_data(const Recipe& recipe, const PreparingOptions& options = {});

}  // namespace thinwire
