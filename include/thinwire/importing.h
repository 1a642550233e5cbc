// Reads models of other programs, as `thinwire import` does (docs/models.md). Target
// thinwire::core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "thinwire/error.h"

namespace thinwire {

struct ImportOptions {
  // For a PEFT folder: the model that it adapts. Empty: where the folder says.
  std::filesystem::path base = {};
  // For an encoder without a classification head: the classes of the one that is drawn for it, or 1
  // for a number. 0: it must have one.
  int64_t labels = 0;
  // Called before each tensor is read or written, with its name. May be empty.
  // Called as tensors are read and then written, with how many are done and how many there are;
  // what it throws ends the call. May be empty.
  std::function<void(size_t done, size_t all)> on_progress = {};
};

// Makes a checkpoint of a Hugging Face or PEFT folder, for train.init, TrainedModel and
// export_model; it appears only when it is complete. Returns what the user should know, a sentence
// each. Throws Error, naming the file, for a model that Thinwire does not compute or that is
// damaged, and if `to` exists and is not empty.
std::vector<std::string> import_model(const std::filesystem::path& from,
                                      const std::filesystem::path& to,
                                      const ImportOptions& options = {});

}  // namespace thinwire
