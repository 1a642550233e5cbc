// The model of each architecture in method/architectures/architecture.h.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/model/decoder.h"
#include "thinwire/model/graph_model.h"
#include "thinwire/model/model.h"
#include "thinwire/model/scorer.h"

namespace thinwire::model {

struct ModelEntry {
  std::string_view name;  // of method::Architecture
  MakeGraph graph;
  bool decodes;  // whether it can generate text
};

// The graph of each folder of thinwire/architectures.
#define THINWIRE_ARCHITECTURE(Name) extern const ModelEntry k##Name;
#include "thinwire/architectures/architectures.inc"
#undef THINWIRE_ARCHITECTURE

std::span<const ModelEntry* const> all_models();

// The model named by parts.model.architecture. Throws UsageError for an unknown name and for shapes
// that the model cannot have, Error for the layout of another model.
std::unique_ptr<Model> make_model(const ModelParts& parts);

// As make_model; throws Error if the architecture cannot generate text.
std::unique_ptr<Decoder> make_decoder(const DecoderParts& parts);
// As check_memory, before one is made: compares what it then allocates with the memory of where it
// computes. `what` needs it ("generating").
std::string check_decoder_memory(const std::string& what, const DecoderParts& parts,
                                 const std::string& advice);

// As make_decoder.
std::unique_ptr<Scorer> make_scorer(const DecoderParts& parts);

}  // namespace thinwire::model
