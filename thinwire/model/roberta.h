// The graph of RoBERTa with a classification head (method/architectures/roberta.h).
#pragma once

#include <memory>

#include "thinwire/model/graph.h"

namespace thinwire::model {

// Throws Error for Purpose::kDecoding: an encoder does not generate.
std::unique_ptr<Graph> make_roberta(Ops& ops, const method::ModelSpec& model,
                                    const tensor::Layout& layout, Purpose purpose);

}  // namespace thinwire::model
