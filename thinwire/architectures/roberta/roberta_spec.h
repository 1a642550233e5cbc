// Facts of RoBERTa (Liu et al. 2019, arXiv 1907.11692) with a classification head: tokens and
// positions, LayerNorm, blocks of bidirectional attention and a GELU layer, each followed by
// LayerNorm (BERT, Devlin et al. 2018, arXiv 1810.04805), and a head on the first token of a text.
// No dropout. The passes over it are in roberta.cpp, its Hugging Face form in
// roberta_hf.h.
#pragma once

#include <cstdint>

#include "thinwire/method/architectures/architecture.h"

namespace thinwire::method {

// A position's row in the table is its number plus this: rows 0 and 1 were meant for padding.
inline constexpr int64_t kRobertaFirstPosition = 2;

// The table [roberta].
struct RobertaOptions final : ArchitectureSectionOf<RobertaOptions> {
  int64_t intermediate = 0;  // 0: 4 * hidden
  int64_t positions = 512;   // of the longest text
  int64_t token_types = 1;   // rows of a table of which only the first is used
  double norm_eps = 1e-5;
  int64_t labels = 2;  // classes

  void describe(config::Fields& fields) override;
  void fill_derived(const config::Recipe& recipe) override;
};

// Throws UsageError if the model's fields contradict each other.
void check_roberta(const ModelSpec& model);

extern const Architecture kRoberta;

}  // namespace thinwire::method
