// Runs with lora on a tiny base, for tests.
#pragma once

#include <string>
#include <vector>

#include "tests/tiny_run.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {

// Prepares the tiny corpus in `folder` and trains the base there.
inline void prepare_adapter_base(const fs::path& folder) {
  prepare_tiny_corpus(folder);
  train(tiny_recipe(folder,
                    {"run.dir=" + (folder / "base").string(), "train.steps=4", "train.workers=1"}),
        {});
}

// Overrides of tiny_recipe for a run on that base.
inline std::vector<std::string> lora_fields(const fs::path& folder) {
  return {"adapter.kind=lora", "adapter.rank=4", "adapter.whole=[\"model.norm\"]",
          "train.init=" + (folder / "base").string()};
}

}  // namespace thinwire::launch
