// A language model that was trained: its weights, how likely it finds a text, and how it continues
// one, as `thinwire eval` and `thinwire generate` say. Target thinwire::core.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/error.h"

namespace thinwire {

// Row-major, in fp32.
struct ModelTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;
};

struct GenerationOptions {
  int64_t tokens = 200;    // the most that are added; a token that ends texts ends it sooner
  double temperature = 1;  // divides the logits; 0: the likeliest token always
  int64_t top_k = 0;       // chooses among the k likeliest tokens; 0: all
  double top_p = 1;        // chooses among the fewest likeliest tokens whose probabilities reach it
  uint64_t seed = 1;       // of the choices: the same seed gives the same text
  // Called with each piece of the text as soon as it is there; false ends it. May be empty.
  std::function<bool(std::string_view)> on_text = {};
};

// Copies share the weights. Used by one thread at a time.
class TrainedModel {
 public:
  // Reads the folder of a run (its newest checkpoint), a checkpoint, or a Hugging Face or PEFT
  // folder. threads: which compute; 0: as many as there are cores. Throws Error for a folder that
  // holds no model with a vocabulary, and UsageError for a model that does not predict text or that
  // this machine has not the memory for.
  explicit TrainedModel(const std::filesystem::path& folder, int threads = 0);

  // What the user should know of the folder, a sentence each.
  const std::vector<std::string>& notices() const;
  // The tensors stay where they are while there is a copy of this.
  std::vector<ModelTensor> tensors() const;
  // The most tokens that the model sees at once: the sequence length of its training.
  int64_t context() const;

  // The text with which the prompt, which may be empty, goes on. Throws UsageError for options out
  // of their range, and Error if prompt and tokens are more than the model has positions for.
  std::string generate(std::string_view prompt, const GenerationOptions& options = {}) const;

  // The log-likelihood of a text of any length, in nats: minus its loss times its tokens. Windows
  // overlap as in the LM evaluation harness. Throws Error for characters that the vocabulary cannot
  // spell.
  double log_likelihood(const std::string& text) const;

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace thinwire
