// The table [model] of a recipe: what the model computes, and the shape that models of every
// architecture have. Fields of one architecture alone are in a table of its name
// (method/architectures/architecture.h).
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/config/fields.h"

namespace thinwire::config {

struct ModelSection : SectionOf<ModelSection> {
  std::string architecture = "llama";  // a name of method/architectures/architectures.h
  int64_t vocab = 0;                   // 0: the vocabulary's size
  int64_t hidden = 128;
  int64_t layers = 4;
  int64_t heads = 4;
  bool tied = false;  // output head shares the embedding
  double init_std = 0.02;
  std::string recompute = "none";     // none | attention | block: what a backward pass recomputes
  std::string block_inputs = "fp32";  // fp32 | bf16: how it keeps what it recomputes a block from
  int64_t vocab_slabs = 1;            // in which gradients of embedding and head are formed
  void describe(Fields& fields) override;
};

}  // namespace thinwire::config
