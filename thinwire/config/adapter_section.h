// The table [adapter] of a recipe: which part of the model a run trains, if not all of it.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/config/fields.h"

namespace thinwire::config {

struct AdapterSection final : SectionOf<AdapterSection> {
  std::string kind = "none";  // a name of method/adapters/adapter.h
  int64_t rank = 8;           // r
  double alpha = 16;          // the product of the factors is scaled by alpha / rank
  StringList targets = {"*_proj"};
  StringList whole;  // further tensors to train, in full
  std::string init;  // start from this PEFT folder or run; empty: from new factors
  void describe(Fields& fields) override;
};

}  // namespace thinwire::config
