#include "thinwire/train/initial_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/convert/load.h"
#include "thinwire/data/utf8.h"
#include "thinwire/events/progress.h"
#include "thinwire/model/model.h"

namespace thinwire::train {

namespace {

bool is_ascii(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Every piece, and every piece drawn out by some that begin where it ends ("ab" by "bc": "abc"),
// which shows whose merge goes first.
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
  return text;
}

// Whether two files of a vocabulary, say of two formats, make the same tokens of text: every token
// stands for the same, and a text of all of them is cut in the same places.
bool same_tokens(const data::Vocabulary& a, const data::Vocabulary& b) {
  if (a.digest() == b.digest()) return true;
  if (a.size() != b.size() || a.eos() != b.eos()) return false;
  for (int32_t token = 0; token < a.size(); ++token) {
    if (a.piece(token) != b.piece(token)) return false;
  }
  const std::string text = text_of_pieces(a);
  return a.encode(text) == b.encode(text);
}

void check_vocabulary(const config::Recipe& recipe, const convert::LoadedModel& loaded,
                      const data::Vocabulary* vocabulary) {
  if (vocabulary == nullptr) return;
  if (loaded.vocabulary == nullptr) {
    events::print_message(
        fmt::format("[train] init: {} has no vocabulary, so nothing shows whether its model reads "
                    "the tokens of [data] dir = {}",
                    recipe.train.init, recipe.data.dir));
    return;
  }
  if (same_tokens(*vocabulary, *loaded.vocabulary)) return;
  throw UsageError(fmt::format(
      "[train] init: the tokens of the model in {} stand for different text than those of [data] "
      "dir = {}; prepare the text with data.{}",
      recipe.train.init, recipe.data.dir,
      loaded.vocabulary->kept_name() == std::string(data::kByteFile)
          ? "vocabulary = \"byte\""
          : fmt::format("vocabulary_model = \"{}\"", loaded.vocabulary->file().string())));
}

}  // namespace

void set_initial_parameters(const config::Recipe& recipe, const data::Vocabulary* vocabulary,
                            tensor::Arena& params) {
  if (recipe.train.init.empty()) {
    model::init_parameters(params, method::ModelSpec(recipe),
                           derive_seed(static_cast<uint64_t>(recipe.run.seed), "init"));
    return;
  }
  const convert::LoadedModel loaded = convert::load_model(recipe.train.init);
  check_vocabulary(recipe, loaded, vocabulary);
  if (loaded.params->layout().total() != params.layout().total()) {
    throw Error(fmt::format("[train] init: the model in {} has changed", recipe.train.init));
  }
  params.assign(*loaded.params);
}

void InitialParameters::copy_to(tensor::Arena& params) {
  params.assign(*values_);
  if (left_.fetch_sub(1) == 1) values_.reset();
}

}  // namespace thinwire::train
