// The arithmetic of the optimizers besides AdamW (optim/adamw.h); method/optimizers/sections.h
// describes the methods.
#pragma once

#include <memory>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// Muon: orthogonalised momentum for the matrices of the transformer blocks (Jordan et al. 2024),
// with the scale that makes its steps as large as AdamW's (Liu et al. 2025, "Muon is scalable for
// LLM training", arXiv 2502.16982, equation 4); AdamW for the embedding, the head and the norms.
// The inner optimizer of MuLoCo (Therien et al. 2025, arXiv 2505.23725).

// For tensors of role kMatrix, rows x columns, mu = muon.momentum, lr_m = lr * muon.lr / optim.lr:
//   m = mu m + g      o = NewtonSchulz(g + mu m)
//   p = p (1 - lr_m wd) - lr_m * 0.2 sqrt(max(rows, columns)) o
std::unique_ptr<Optimizer> make_muon(const method::OptimizerOptions& options,
                                     const tensor::Layout& layout);

// GaLore's arithmetic (Zhao et al. 2024, arXiv 2403.03507, algorithm 2).

// For a matrix of the blocks with rows <= columns (otherwise R = G Q and the update Adam(R) Q^T):
//   R = P^T G      p = p (1 - lr wd) - lr * galore.scale * P Adam(R)
// P is renewed every galore.refresh steps (optim/subspace.h). Adam is AdamW without decay.
std::unique_ptr<Optimizer> make_galore(const method::OptimizerOptions& options,
                                       const tensor::Layout& layout);

// Natural GaLore's arithmetic (Das 2024).

// Like GaLore, but Adam takes the natural gradient of the core R
// (optim/natural_gradient.h). The Fisher matrix is that of the last natural_galore.history cores:
//   p = p (1 - lr wd) - lr * scale * P Adam((lambda I + R^ R^T)^-1 R)
// With two sides the core is P^T G Q and the step is P Adam(...) Q^T.
std::unique_ptr<Optimizer> make_natural_galore(const method::OptimizerOptions& options,
                                               const tensor::Layout& layout);

// APOLLO's arithmetic (Zhu et al. 2024, arXiv 2412.05270, algorithm 1).

// For a matrix of the blocks with rows <= columns (otherwise with rows and columns exchanged), and
// P [rank, rows] with entries from N(0, 1 / rank), redrawn every apollo.refresh steps:
//   R = P G      D = Adam(R)      s_j = |D_j| / (|R_j| + 1e-8) for column j, or for all
//   p = p (1 - lr wd) - lr * scale * limited(G diag(s))
// `limited` limits the norm of a step, without Adam's bias correction, to `growth` times that of
// the previous step.
std::unique_ptr<Optimizer> make_apollo(const method::OptimizerOptions& options,
                                       const tensor::Layout& layout);

// Fira's arithmetic (Chen et al. 2024, arXiv 2410.01623, algorithm 1).

// For a matrix of the blocks with rows <= columns (otherwise with rows and columns exchanged):
//   R = P^T G      D = Adam(R)      s_j = |D_j| / (|R_j| + 1e-8) for column j
//   p = p (1 - lr wd) - lr * (scale P D + limited((G - scale P R) diag(s)))
// `limited` limits the norm of the last term, without Adam's bias correction, to `growth` times its
// norm in the previous step. P is the same as in GaLore.
std::unique_ptr<Optimizer> make_fira(const method::OptimizerOptions& options,
                                     const tensor::Layout& layout);

// SCALE's arithmetic (Glentis et al. 2025, arXiv 2506.16659, algorithm 1).

// For every matrix, with weights [outputs, inputs]:
//   g = beta m + (1 - beta) g, m = g      in the last layer
//   p = p (1 - lr wd) - lr g_i / max(rms(g_i), 1e-8)      for each output i
// The embedding, if it is not the last layer, is [inputs, outputs], so there i is a column.
std::unique_ptr<Optimizer> make_scale(const method::OptimizerOptions& options,
                                      const tensor::Layout& layout);

}  // namespace thinwire::optim
