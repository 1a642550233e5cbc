#include "thinwire/train/initial_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/base/threads.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/checkpoint/weights.h"
#include "thinwire/convert/load.h"
#include "thinwire/convert/peft.h"
#include "thinwire/data/utf8.h"
#include "thinwire/events/progress.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/model/model.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::train {
namespace {

bool is_ascii(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Where the patterns and normalizers of known tokenizers treat text unlike: contractions, digits,
// marks beside letters, white space, letters with marks, and what NFKC replaces.
constexpr const char* kOddTexts =
    " we'll IT'S I'M x'That x'Say x'Mow x'Reap x'Veal x'Llama x'Dog 12345 3,456.78 v1b2 "
    "\u0661\u0662\u0663 snake_case "
    "(word) "
    "\"word\" --word word!? ... :// word/word\n\nword \n \nword\r\nword\t\tword   word \u00e9 "
    "e\u0301 na\u00efve \u4e16\u754c \u0939\u093f\u0928 \ufb01ne \u212b \u2460 \uff21\u3000word "
    "\u00a0word ";

// Every piece, and every piece extended by some that begin with its end ("ab" by "bc": "abc"),
// which shows whose merge comes first.
std::string text_of_pieces(const data::Vocabulary& vocabulary) {
  constexpr size_t kContinuations = 8;  // of a piece
  std::vector<std::string> pieces;
  std::map<char, std::vector<std::string>> by_first;
  std::string text;
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    const std::string piece = vocabulary.piece(token);
    if (piece.empty() || data::valid_utf8_prefix(piece) != piece.size()) continue;
    text += piece;
    pieces.push_back(piece);
    auto& alike = by_first[piece.front()];
    if (piece.size() > 1 && is_ascii(piece) && alike.size() < kContinuations)
      alike.push_back(piece);
  }
  for (const std::string& piece : pieces) {
    if (!is_ascii(piece)) continue;
    for (const std::string& next : by_first[piece.back()]) text += ' ' + piece + next.substr(1);
  }
  return text + kOddTexts;
}

// Whether two vocabulary files, perhaps of different formats, turn text into the same tokens: every
// token stands for the same text, and a text made of all of them is split in the same places.
bool same_tokens(const data::Vocabulary& a, const data::Vocabulary& b) {
  if (a.digest() == b.digest()) return true;
  if (a.size() != b.size() || a.eos() != b.eos()) return false;
  for (int32_t token = 0; token < a.size(); ++token) {
    // The token of unknown text stands for none of its own; formats show it differently.
    if (token == a.unknown() || token == b.unknown()) continue;
    if (a.piece(token) != b.piece(token)) return false;
  }
  const std::string text = text_of_pieces(a);
  return a.encode(text) == b.encode(text);
}

void check_vocabulary(const config::Recipe& recipe, const convert::LoadedModel& loaded,
                      const data::Vocabulary* vocabulary, const events::MessageSink& message) {
  if (vocabulary == nullptr) return;
  if (loaded.vocabulary == nullptr) {
    message(
        fmt::format("[train] init: {} has no vocabulary, so it cannot be checked that its model "
                    "uses the same tokens as [data] dir = {}",
                    recipe.train.init, recipe.data.dir));
    return;
  }
  if (same_tokens(*vocabulary, *loaded.vocabulary)) return;
  throw UsageError(fmt::format(
      "[train] init: the tokens of the model in {} stand for different text than those of [data] "
      "dir = {}; prepare the text with data.{}",
      recipe.train.init, recipe.data.dir,
      loaded.vocabulary->stored_name() == std::string(data::kByteFile)
          ? "vocabulary = \"byte\""
          : fmt::format("vocabulary_model = \"{}\"", loaded.vocabulary->file().string())));
}

convert::LoadedModel load_initial(const config::Recipe& recipe, const data::Vocabulary* vocabulary,
                                  const events::MessageSink& message,
                                  tensor::Arena* into = nullptr) {
  convert::LoadedModel loaded = convert::load_model(recipe.train.init, {}, into);
  for (const std::string& notice : loaded.notices) message(notice);
  check_vocabulary(recipe, loaded, vocabulary, message);
  return loaded;
}

// Fills the tensors of both arenas that the model in train.init has, and returns the digest of its
// weights.
uint64_t read_base(const config::Recipe& recipe, const data::Vocabulary* vocabulary,
                   const events::MessageSink& message, tensor::Arena& frozen,
                   tensor::Arena& trained) {
  if (method::freezes_whole_base(recipe)) {
    return load_initial(recipe, vocabulary, message, &frozen).digest;
  }
  const convert::LoadedModel loaded = load_initial(recipe, vocabulary, message);
  checkpoint::copy_common(*loaded.params, frozen);
  checkpoint::copy_common(*loaded.params, trained);
  return checkpoint::digest_weights(*loaded.params);
}

void draw_all(const config::Recipe& recipe, tensor::Arena& params) {
  // The workers, whose threads these will be, have not begun.
  const int64_t own = recipe.train.workers * recipe.train.threads;
  ThreadPool threads(static_cast<int>(std::min<int64_t>(available_cores(), own)));
  model::init_parameters(params, method::ModelSpec(recipe),
                         derive_seed(static_cast<uint64_t>(recipe.run.seed), "init"), threads);
}

// Weights of a program's own model: a file with the names and shapes of the recipe's tensors.
void read_external(const std::string& file, tensor::Arena& params) {
  try {
    const tensor::SafetensorsReader reader{file};
    const checkpoint::TensorFiles tensors = checkpoint::tensors_of(reader);
    checkpoint::check_weights(file, tensors, params.layout().specs());
    checkpoint::read_weights(tensors, params);
  } catch (const Error& error) {
    throw UsageError(fmt::format("[train] init: {}", error.what()));
  }
}

}  // namespace

fs::path offload_folder(const config::Recipe& recipe) {
  return recipe.train.offload_dir.empty() ? recipe.run.dir : recipe.train.offload_dir;
}

std::shared_ptr<Offload> make_offload(const config::Recipe& recipe) {
  if (!recipe.train.offload) return nullptr;
  const fs::path folder = offload_folder(recipe);
  fs::create_directories(folder);
  const double window = method::offload_window(recipe, method::tensors_of(recipe));
  return std::make_shared<Offload>(folder, static_cast<size_t>(window));
}

void set_initial_parameters(const config::Recipe& recipe, const data::Vocabulary* vocabulary,
                            tensor::Arena& params, const events::MessageSink& message) {
  if (recipe.train.init.empty()) return draw_all(recipe, params);
  if (method::is_external(recipe)) return read_external(recipe.train.init, params);
  load_initial(recipe, vocabulary, message, &params);
}

FrozenWeights::FrozenWeights(std::vector<TensorSpec> specs, WeightFormat format,
                             std::shared_ptr<Offload> offload)
    : layout(std::move(specs)), values(layout, format, std::move(offload)) {}

FrozenWeights::FrozenWeights(const FrozenWeights& other)
    : layout(other.layout), values(layout, other.values.format(), other.values.offload()) {
  checkpoint::copy_common(other.values, values);
}

StartingWeights starting_weights(const config::Recipe& recipe, const data::Vocabulary* vocabulary,
                                 const tensor::Layout& layout, const events::MessageSink& message) {
  StartingWeights start;
  const std::shared_ptr<Offload> offload = make_offload(recipe);
  start.trained = std::make_shared<tensor::Arena>(layout, method::trained_format(recipe), offload);
  if (!method::is_adapted(recipe.adapter)) {
    set_initial_parameters(recipe, vocabulary, *start.trained, message);
    return start;
  }
  const auto frozen = std::make_shared<FrozenWeights>(
      method::adapted_tensors(method::ModelSpec(recipe), recipe.adapter).frozen,
      recipe.train.weights, offload);
  if (recipe.train.init.empty()) {
    draw_all(recipe, frozen->values);
    draw_all(recipe, *start.trained);
  } else {
    start.base_digest = read_base(recipe, vocabulary, message, frozen->values, *start.trained);
  }
  draw_factors(recipe, 0, *start.trained);
  if (!recipe.adapter.init.empty()) {
    convert::read_factors(recipe.adapter.init, recipe, start.base_digest, *start.trained);
  }
  if (frozen->layout.size() > 0) start.frozen = frozen;
  return start;
}

void draw_factors(const config::Recipe& recipe, uint64_t draw, tensor::Arena& trained) {
  const method::ModelSpec model(recipe);
  const uint64_t seed = derive_seed(static_cast<uint64_t>(recipe.run.seed), "adapter");
  for (size_t i = 0; i < trained.layout().size(); ++i) {
    const TensorSpec& spec = trained.layout().specs()[i];
    if (!method::is_factor(spec)) continue;
    const method::InitialFactor initial = method::initial_factor(model, recipe.adapter, spec);
    Rng rng(derive_seed(seed, spec.name), draw);
    for (float& value : trained.tensor(i)) {
      const double drawn = initial.deviation > 0 ? initial.deviation * rng.normal()
                                                 : initial.bound * (2 * rng.uniform() - 1);
      value = initial.bound == 0 && initial.deviation == 0 ? 0.0f : static_cast<float>(drawn);
    }
  }
}

tensor::Arena InitialParameters::take() {
  if (left_.load() == 1) {  // nobody else reads them any more
    tensor::Arena own = std::move(*values_);
    values_.reset();
    return own;
  }
  const std::shared_ptr<Offload>& offload = values_->offload();
  tensor::Arena copy(values_->layout(), values_->format(), offload ? offload->another() : nullptr);
  copy.assign(*values_);
  if (left_.fetch_sub(1) == 1) values_.reset();
  return copy;
}

std::shared_ptr<FrozenWeights> InitialParameters::take_frozen() {
  if (frozen_left_.load() == 1) return std::move(frozen_);
  auto copy = std::make_shared<FrozenWeights>(*frozen_);
  if (frozen_left_.fetch_sub(1) == 1) frozen_.reset();
  return copy;
}

}  // namespace thinwire::train
