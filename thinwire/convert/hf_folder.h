// The weights of a Hugging Face folder: model.safetensors, or the shards that
// model.safetensors.index.json lists.
#pragma once

#include <string>
#include <vector>

#include "thinwire/checkpoint/weights.h"
#include "thinwire/method/architectures/model_spec.h"

namespace thinwire::convert {

bool equal_bytes(const TensorView& a, const TensorView& b);

// The name of the tensor with this role in a model with an untied head; empty if there is none.
std::string name_of(TensorRole role, method::ModelSpec model);

class HfWeights {
 public:
  // Throws Error that names the file when weights are absent, not safetensors, or not where the
  // index says.
  explicit HfWeights(const fs::path& folder);

  // Throws Error unless the tensors are exactly those of the model. Two kinds do not count as
  // extra: rotary frequencies, which old checkpoints store although they follow from the
  // configuration, and the head of a tied model if it equals the embedding, or stands for it where
  // that is absent. An encoder may have other heads, which are left out, or none (has_head).
  checkpoint::TensorFiles select(const method::ModelSpec& model);
  // The names of the files: those with tensors, and the index of several.
  std::vector<std::string> file_names() const;
  // Whether there is a tensor of the head of this encoder.
  bool has_head(const method::ModelSpec& model) const;

 private:
  void open_shards(const fs::path& index);
  // Names the tensors of an encoder without a head as those of one with a head are named.
  void add_encoder_prefix();
  void take_head_for_embedding(const method::ModelSpec& model);
  checkpoint::TensorFiles select_encoder(const method::ModelSpec& model,
                                         checkpoint::TensorFiles selected) const;

  fs::path folder_;
  std::map<std::string, tensor::SafetensorsReader> shards_;  // by file name
  checkpoint::TensorFiles files_;
};

}  // namespace thinwire::convert
