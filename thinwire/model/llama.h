// The Llama language model (Touvron et al. 2023, arXiv 2302.13971):
//
//     x  = embed[token]
//     x += Wo attention(rope(Wq y), rope(Wk y), Wv y),  y = rmsnorm(x)     for every block
//     x += Wdown (silu(Wgate y) * (Wup y)),             y = rmsnorm(x)
//     logits = Whead rmsnorm(x)
//
// and with the options of its table (method/architectures/llama.h): biases on the products, norms
// of queries and keys before rope, attention within a window, and x += rmsnorm(branch(x)) in place
// of branch(y).
#pragma once

#include <memory>

#include "thinwire/model/graph.h"

namespace thinwire::model {

// model.recompute and model.block_inputs determine which slots there are.
std::unique_ptr<Graph> make_llama(Ops& ops, const method::ModelSpec& model,
                                  const tensor::Layout& layout, Purpose purpose);

}  // namespace thinwire::model
