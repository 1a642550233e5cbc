#include "thinwire/convert/hf_origin.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/convert/hf.h"
#include "thinwire/convert/peft.h"
#include "thinwire/data/utf8.h"

namespace thinwire::convert {
namespace {

constexpr std::array kKept = {"config.json",
                              "generation_config.json",
                              "tokenizer.json",
                              "added_tokens.json",
                              "tokenizer_config.json",
                              "special_tokens_map.json",
                              "chat_template.jinja",
                              "chat_template.json",
                              "README.md",
                              "LICENSE",
                              "LICENSE.txt",
                              "NOTICE"};

// The only kept file that is no text; print_origin writes it in base64.
constexpr const char* kPieces = "tokenizer.model";

bool is_kept(const std::string& name) {
  if (name == kPieces) return true;
  for (const char* kept : kKept) {
    if (name == kept) return true;
  }
  return false;
}

std::string read_if_there(const fs::path& file) {
  return is_file(file) ? read_text_file(file) : std::string();
}

}  // namespace

HfOrigin read_origin(const fs::path& hf_dir) {
  HfOrigin origin;
  for (const char* name : kKept) {
    std::string text = read_if_there(hf_dir / name);
    if (text.empty() || data::valid_utf8_prefix(text) != text.size()) continue;
    origin.emplace(name, std::move(text));
  }
  if (std::string pieces = read_if_there(hf_dir / kPieces); !pieces.empty()) {
    origin.emplace(kPieces, std::move(pieces));
  }
  return origin;
}

HfOrigin load_origin(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kOriginFile;
  const std::string text = read_if_there(path);
  if (text.empty()) return {};
  const HfJson json = try_parse_json<HfJson>(text);
  HfOrigin origin;
  if (!json.is_object()) {
    throw Error(fmt::format("{} is damaged: it is {}", path.string(), json_fault(text)));
  }
  for (const auto& [name, content] : json.items()) {
    if (!is_kept(name) || !content.is_string()) {
      throw Error(
          fmt::format("{} is damaged: {} is not a file that it holds", path.string(), name));
    }
    std::optional<std::string> held = content.get<std::string>();
    if (name == kPieces) held = decode_base64(*held);
    if (!held) {
      throw Error(fmt::format("{} is damaged: {} is not in base64", path.string(), name));
    }
    origin.emplace(name, std::move(*held));
  }
  return origin;
}

std::string print_origin(const HfOrigin& origin) {
  HfJson json(origin);
  if (const auto pieces = json.find(kPieces); pieces != json.end()) {
    *pieces = encode_base64(pieces->get<std::string>());
  }
  return print_json(json, {.indent = 1}) + "\n";
}

HfOrigin origin_of(const fs::path& source) {
  if (checkpoint::is_checkpoint(source)) return load_origin(source);
  if (const auto newest = checkpoint::newest_checkpoint(source / "checkpoints")) {
    return load_origin(*newest);
  }
  if (is_peft_folder(source)) return origin_of(peft_base(source, {}));
  return is_hf_folder(source) ? read_origin(source) : HfOrigin();
}

std::string merge_json(const std::string& origin, const HfJson& before, const HfJson& now) {
  HfJson merged = try_parse_json<HfJson>(origin);
  if (!merged.is_object()) return print_json(now, {.indent = 2}) + "\n";
  for (const auto& [key, value] : now.items()) {
    const auto was = before.find(key);
    if (was == before.end() || *was != value) merged[key] = value;
  }
  return print_json(merged, {.indent = 2}) + "\n";
}

}  // namespace thinwire::convert
