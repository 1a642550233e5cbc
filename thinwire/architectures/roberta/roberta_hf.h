// What is particular to RoBERTa's form in Hugging Face folders.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/convert/hf_architectures.h"

namespace thinwire::convert {

// config.json of Hugging Face's RobertaForSequenceClassification, and of RobertaForMaskedLM, in
// which RoBERTa is published (Liu et al. 2019, arXiv 1907.11692): the same encoder under another
// head. RobertaModel is the encoder alone.
extern const HfArchitecture kHfRoberta;

// Before the names of the encoder's tensors, except in the files of RobertaModel, which are known
// by the name of this tensor.
inline const std::string kEncoderPrefix = "roberta.";
inline constexpr const char* kBareEmbedding = "embeddings.word_embeddings.weight";

// Whether the encoder's folder may hold this tensor, which the model here does not have: another
// head, or what transformers once stored beside the weights.
bool is_left_out(const std::string& tensor);

// The text of config.json for a model with a new head for this many classes.
std::string with_classes(const std::string& config, int64_t labels);

}  // namespace thinwire::convert
