#include "thinwire/convert/hf_origin.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

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

bool is_kept(const std::string& name) {
  for (const char* kept : kKept) {
    if (name == kept) return true;
  }
  return false;
}

std::string read_if_there(const fs::path& file) {
  return fs::is_regular_file(file) ? read_text_file(file) : std::string();
}

}  // namespace

HfOrigin read_origin(const fs::path& hf_dir) {
  HfOrigin origin;
  for (const char* name : kKept) {
    std::string text = read_if_there(hf_dir / name);
    if (text.empty() || data::valid_utf8_prefix(text) != text.size()) continue;
    origin.emplace(name, std::move(text));
  }
  return origin;
}

HfOrigin load_origin(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kOriginFile;
  const std::string text = read_if_there(path);
  if (text.empty()) return {};
  const HfJson json = try_parse_json<HfJson>(text);
  HfOrigin origin;
  if (!json.is_object()) throw Error(fmt::format("{} is damaged: not an object", path.string()));
  for (const auto& [name, content] : json.items()) {
    if (!is_kept(name) || !content.is_string()) {
      throw Error(
          fmt::format("{} is damaged: {} is not a file that it holds", path.string(), name));
    }
    origin.emplace(name, content.get<std::string>());
  }
  return origin;
}

std::string print_origin(const HfOrigin& origin) {
  return print_json(HfJson(origin), {.indent = 1}) + "\n";
}

HfOrigin origin_of(const fs::path& source) {
  if (checkpoint::is_checkpoint(source)) return load_origin(source);
  if (const auto newest = checkpoint::newest_checkpoint(source / "checkpoints")) {
    return load_origin(*newest);
  }
  if (is_peft_folder(source)) return origin_of(peft_base(source, {}));
  return is_hf_folder(source) ? read_origin(source) : HfOrigin();
}

std::string origin_text_of(const fs::path& source) {
  const HfOrigin origin = origin_of(source);
  return origin.empty() ? std::string() : print_origin(origin);
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
