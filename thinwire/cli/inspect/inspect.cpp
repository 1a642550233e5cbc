// thinwire inspect: any file Thinwire writes, in readable form.
#include "thinwire/cli/inspect/inspect.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/data/inspect.h"

namespace thinwire::cli {
namespace {

constexpr const char* kKnown =
    "a run folder, a checkpoint, a prepared data folder, a Hugging Face folder, a shard (.tws), a "
    "payload, .safetensors, a vocabulary (.model), events.jsonl, summary.json, a TensorBoard event "
    "file, a sweep's folder or its results.csv, or a .toml or .json file";

std::string describe_folder(const fs::path& folder) {
  if (checkpoint::is_checkpoint(folder)) return describe_checkpoint(folder);
  if (fs::exists(folder / "prepare.json")) return data::describe_prepared(folder);
  if (fs::exists(folder / "config.json")) return describe_hugging_face(folder);
  if (fs::exists(folder / "recipe.toml")) return describe_run(folder);
  if (fs::exists(folder / "results.csv")) return describe_csv(folder / "results.csv");
  throw Error(fmt::format("{}: not a Thinwire folder; expected {}", folder.string(), kKnown));
}

bool begins_with(const fs::path& file, std::string_view magic) {
  const MappedFile mapped(file);
  const auto bytes = mapped.bytes();
  return bytes.size() >= magic.size() &&
         std::ranges::equal(bytes.first(magic.size()), as_bytes(magic));
}

std::string describe_file(const fs::path& file) {
  const std::string name = file.filename().string();
  const std::string ending = file.extension().string();
  if (begins_with(file, "TWSHARD") || ending == ".tws") return data::describe_shard(file);
  if (begins_with(file, "TWPL")) return describe_payload(file);
  if (ending == ".model") return data::describe_vocabulary(file);
  if (ending == ".csv") return describe_csv(file);
  if (ending == ".safetensors") return describe_safetensors(file);
  if (ending == ".jsonl") return describe_run_log(file);
  if (name.find("tfevents") != std::string::npos) return describe_tensorboard(file);
  if (name == "summary.json") return describe_summary(file);
  if (ending == ".toml" || ending == ".json") return read_text_file(file);
  throw Error(fmt::format("{}: not a Thinwire file; expected {}", file.string(), kKnown));
}

void run_inspect(const std::vector<std::string>& paths) {
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string text = describe_path(paths[i]);
    if (paths.size() > 1) fmt::print("{}{}\n", i == 0 ? "" : "\n", paths[i]);
    fmt::print("{}", text);
  }
}

}  // namespace

std::string describe_path(const fs::path& path) {
  if (!fs::exists(path)) throw Error(fmt::format("{}: there is no such file", path.string()));
  return fs::is_directory(path) ? describe_folder(path) : describe_file(path);
}

void add_inspect(CLI::App& app) {
  auto* command = add_command(app, "inspect", "Shows any file Thinwire writes in readable form");
  const auto paths = std::make_shared<std::vector<std::string>>();
  command->add_option("paths", *paths, "Files and folders")->required()->check(refuse_empty);
  command->callback([paths] { run_inspect(*paths); });
}

}  // namespace thinwire::cli
