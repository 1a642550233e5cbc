// adapter_config.json of a PEFT folder.
#pragma once

#include <string>

#include "thinwire/base/file.h"
#include "thinwire/config/fields.h"
#include "thinwire/method/adapters/adapter.h"

namespace thinwire::convert {

inline constexpr const char* kPeftConfigFile = "adapter_config.json";

struct PeftConfig {
  int64_t rank = 0;  // r
  double alpha = 0;  // lora_alpha; with use_rslora so that alpha / rank is PEFT's alpha / sqrt(r)
  std::string base;  // base_model_name_or_path: a folder, or a name on the Hugging Face Hub
  bool classifies = false;  // task_type: SEQ_CLS, not CAUSAL_LM
};

// Throws Error naming the file, the field, its value and what would be right, for anything but LoRA
// as Thinwire computes it.
PeftConfig read_peft_config(const fs::path& path);

// Which modules have factors and which are trained in full, by PEFT's names for them.
struct PeftModules {
  config::StringList targets;  // target_modules
  config::StringList whole;    // modules_to_save
};
std::string print_peft_config(const PeftConfig& config, const PeftModules& modules);

}  // namespace thinwire::convert
