// Muon: orthogonalised momentum for the matrices of the transformer blocks (Jordan et al. 2024),
// with the scale that makes its steps as large as AdamW's (Liu et al. 2025, "Muon is scalable for
// LLM training", arXiv 2502.16982, equation 4); AdamW for the embedding, the head and the norms.
// The inner optimizer of MuLoCo (Therien et al. 2025, arXiv 2505.23725).
#pragma once

#include <memory>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// For tensors of role kMatrix, rows x columns, mu = muon.momentum, lr_m = lr * muon.lr / optim.lr:
//   m = mu m + g      o = NewtonSchulz(g + mu m)
//   p = p (1 - lr_m wd) - lr_m * 0.2 sqrt(max(rows, columns)) o
std::unique_ptr<Optimizer> make_muon(const method::OptimizerOptions& options,
                                     const tensor::Layout& layout);

}  // namespace thinwire::optim
