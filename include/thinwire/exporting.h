// Writes a model that was trained as a folder for other programs, as `thinwire export` does. Target
// thinwire::core.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "thinwire/error.h"

namespace thinwire {

// How numbers are written.
enum class NumberFormat {
  kAsImported,  // as the model came, if every weight still is such a number; else fp32
  kFp32,
  kBf16,
};

struct ExportOptions {
  NumberFormat format = NumberFormat::kAsImported;
  // Only the factors of a run with adapter.kind = "lora", as a folder that PEFT loads: in fp32
  // unless bf16 is asked for.
  bool adapter = false;
  // Of a run with an adapter: where the model that it adapts is now. Empty: where it was.
  std::filesystem::path base = {};
};

// Reads the folder of a run (its newest checkpoint) or a checkpoint, and writes a Hugging Face
// folder, which appears only when it is complete. Returns what the user should know, a sentence
// each. Throws Error if `to` exists and is not empty, or if `from` holds no model that can be
// written so.
std::vector<std::string> export_model(const std::filesystem::path& from,
                                      const std::filesystem::path& to,
                                      const ExportOptions& options = {});

}  // namespace thinwire
