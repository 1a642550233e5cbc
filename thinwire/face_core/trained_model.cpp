#include "thinwire/trained_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "thinwire/base/cores.h"
#include "thinwire/base/threads.h"
#include "thinwire/convert/end_tokens.h"
#include "thinwire/convert/load.h"
#include "thinwire/eval/evaluate.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/model/decoder.h"
#include "thinwire/model/registry.h"
#include "thinwire/model/sampler.h"

namespace thinwire {

struct TrainedModel::Parts {
  Parts(const std::filesystem::path& folder, int count)
      : loaded(convert::load_model(folder)), threads(count == 0 ? available_cores() : count) {
    if (loaded.vocabulary == nullptr) {
      throw Error(
          fmt::format("{} holds no vocabulary, so its tokens have no text", folder.string()));
    }
    if (method::find_architecture(loaded.model.architecture).encodes) {
      throw UsageError(
          fmt::format("{} holds an encoder, which does not predict text", folder.string()));
    }
    ends = convert::end_tokens(loaded.origin, *loaded.vocabulary);
  }

  // For texts of so many tokens.
  model::DecoderParts decoder(int64_t context) {
    const model::DecoderParts parts = {loaded.model, *loaded.params, threads, context};
    const std::string warning = model::check_decoder_memory(
        "a text", parts, fmt::format("take shorter texts than {} tokens", context));
    if (!warning.empty() && std::ranges::count(loaded.notices, warning) == 0) {
      loaded.notices.push_back(warning);
    }
    return parts;
  }

  convert::LoadedModel loaded;
  ThreadPool threads;
  std::vector<int32_t> ends;
};

TrainedModel::TrainedModel(const std::filesystem::path& folder, int threads)
    : parts_(std::make_shared<Parts>(folder, threads)) {}

const std::vector<std::string>& TrainedModel::notices() const { return parts_->loaded.notices; }

std::vector<ModelTensor> TrainedModel::tensors() const {
  const tensor::Arena& arena = *parts_->loaded.params;
  std::vector<ModelTensor> tensors;
  for (size_t i = 0; i < arena.layout().size(); ++i) {
    const TensorSpec& spec = arena.layout().specs()[i];
    tensors.push_back({spec.name, spec.shape, arena.tensor(i)});
  }
  return tensors;
}

int64_t TrainedModel::context() const { return parts_->loaded.sequence; }

std::string TrainedModel::generate(std::string_view prompt,
                                   const GenerationOptions& options) const {
  const convert::LoadedModel& loaded = parts_->loaded;
  std::vector<int32_t> tokens = loaded.vocabulary->encode(prompt);
  if (loaded.begin >= 0) tokens.insert(tokens.begin(), loaded.begin);
  if (tokens.empty()) throw UsageError("this model begins no text without a prompt; give one");
  if (options.tokens < 1) {
    throw UsageError(
        fmt::format("GenerationOptions::tokens must be at least 1, got {}", options.tokens));
  }
  model::Sampler sampler({options.temperature, options.top_k, options.top_p, options.seed});
  const auto decoder = model::make_decoder(parts_->decoder(std::ssize(tokens) + options.tokens));
  data::TextStream stream(*loaded.vocabulary);
  for (const int32_t token : tokens) (void)stream.push(token);
  std::string text;
  const auto put = [&](const std::string& piece) {
    text += piece;
    return piece.empty() || !options.on_text || options.on_text(piece);
  };
  model::generate_tokens(
      *decoder, sampler, tokens, {options.tokens, loaded.vocabulary->size()}, [&](int32_t token) {
        return std::ranges::count(parts_->ends, token) == 0 && put(stream.push(token));
      });
  put(stream.finish());
  return text;
}

double TrainedModel::log_likelihood(const std::string& text) const {
  const convert::LoadedModel& loaded = parts_->loaded;
  eval::Prompter prompter(*loaded.vocabulary, loaded.begin, loaded.sequence);
  const auto scorer = model::make_scorer(parts_->decoder(loaded.sequence));
  return eval::score_text(text, prompter, *scorer);
}

}  // namespace thinwire
