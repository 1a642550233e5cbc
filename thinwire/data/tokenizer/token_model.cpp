#include <utility>

#include "thinwire/data/tokenizer/stages.h"

namespace thinwire::data {

int32_t TokenModel::find(std::string_view piece) const {
  const auto found = tokens_.find(piece);
  return found == tokens_.end() ? -1 : found->second;
}

void TokenModel::add(const JsonPart& place, int32_t token, std::string piece) {
  if (piece.empty()) place.refuse("has an empty piece, with the id {}", token);
  const auto [at, is_new] = pieces_.emplace(token, std::move(piece));
  if (!is_new) place.refuse("has the id {}, which \"{}\" has already", token, at->second);
  if (!tokens_.emplace(at->second, token).second) {
    place.refuse("is \"{}\", which occurs twice", at->second);
  }
}

bool TokenModel::append_bytes(std::string_view text, std::vector<int32_t>& out) const {
  const size_t before = out.size();
  for (const char byte : text) {
    const int32_t token = find(fmt::format("<0x{:02X}>", static_cast<uint8_t>(byte)));
    if (token < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(token);
  }
  return true;
}

std::unique_ptr<const TokenModel> read_token_model(const JsonPart& part) {
  // Files of older versions leave the type of BPE out.
  const std::string type = part.text_or("type", part.find("merges") ? "BPE" : "");
  if (type == "BPE") return read_bpe(part);
  if (type == "Unigram") return read_unigram(part);
  part.refuse("has the type \"{}\", which is not supported; supported models: BPE, Unigram", type);
}

}  // namespace thinwire::data
