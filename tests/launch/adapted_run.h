// Runs with lora on a tiny base, for tests.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/launch/method_variants.h"
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

// The base is not tied, so those that are cannot begin with it. Gradients of factors are whole.
inline std::vector<Variant> adapted_variants() {
  std::vector<Variant> variants = all_variants();
  std::erase_if(variants, [](const Variant& variant) {
    return std::ranges::count(variant.overrides, "optim.gradients=projected") > 0;
  });
  for (Variant& variant : variants) std::erase(variant.overrides, "model.tied=true");
  return variants;
}

}  // namespace thinwire::launch
