// The Llama language model (Touvron et al. 2023, arXiv 2302.13971):
//
//     x  = embed[token]
//     x += Wo attention(rope(Wq y), rope(Wk y), Wv y),  y = rmsnorm(x)     for every block
//     x += Wdown (silu(Wgate y) * (Wup y)),             y = rmsnorm(x)
//     loss = sum of cross entropies of softmax(Whead rmsnorm(x)) with the next token, in nats
#pragma once

#include <memory>
#include <vector>

#include "thinwire/base/memory.h"
#include "thinwire/model/decoder.h"
#include "thinwire/model/model.h"

namespace thinwire::model {

std::unique_ptr<Model> make_llama(const ModelParts& parts);
std::unique_ptr<Decoder> make_llama_decoder(const DecoderParts& parts);
std::vector<MemoryPart> llama_decoder_memory(const config::ModelSection& model, int64_t context,
                                             int threads);

}  // namespace thinwire::model
