// thinwire inspect: any file Thinwire writes, in readable form.
#include "thinwire/cli/inspect/inspect.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/folder_claim.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/config/toml_document.h"
#include "thinwire/data/prepare.h"

namespace thinwire::cli {
namespace {

constexpr const char* kKnown =
    "a run folder, a checkpoint, a prepared data folder, a Hugging Face or PEFT folder, a mailbox, "
    "a shard (.tws), a payload, .safetensors, a vocabulary (.model), events.jsonl, summary.json, a "
    "TensorBoard event file, a sweep's folder or its results.csv, or a .toml or .json file";

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

// The runs in a mailbox, which have a folder of their own name for the coordinator. Empty if there
// are none.
std::string describe_mailbox(const fs::path& folder) {
  std::string text;
  for (const std::string& run : folders_in(folder)) {
    if (!fs::exists(folder / run / run / "records")) continue;
    std::vector<std::string> others = folders_in(folder / run);
    std::erase(others, run);
    text += fmt::format("run {}: {}{}{}\n", run, counted(std::ssize(others), "participant"),
                        others.empty() ? "" : ": ", fmt::join(others, ", "));
  }
  if (text.empty()) return text;
  return fmt::format(
      "mailbox, the folder through which the hosts of a run exchange files: `thinwire join {} "
      "--token TOKEN` takes part\n{}",
      folder.string(), text);
}

// The run that keeps what only its own command reads in this folder; empty if none does.
fs::path run_around(const fs::path& folder) {
  fs::path run = fs::absolute(folder / "..").lexically_normal().parent_path();
  for (const char* own : {"member", "server"}) {
    if (fs::exists(run / "recipe.toml") && fs::exists(run / own) &&
        fs::equivalent(folder, run / own))
      return run;
  }
  return {};
}

std::string describe_folder(const fs::path& folder) {
  if (checkpoint::is_checkpoint(folder)) return describe_checkpoint(folder);
  if (fs::exists(folder / "prepare.json")) return data::describe_prepared(folder);
  if (fs::exists(folder / "config.json")) return describe_hugging_face(folder);
  if (fs::exists(folder / "recipe.toml")) return describe_run(folder);
  if (fs::exists(folder / "results.csv")) return describe_csv(folder / "results.csv");
  if (checkpoint::newest_checkpoint(folder)) return describe_checkpoints(folder);
  if (fs::exists(folder / "adapter_config.json")) return describe_peft(folder);
  if (std::string mailbox = describe_mailbox(folder); !mailbox.empty()) return mailbox;
  if (const fs::path run = run_around(folder); !run.empty()) {
    throw Error(fmt::format("{0} is a part of the run folder {1}; `thinwire inspect {1}` shows it",
                            folder.string(), run.string()));
  }
  using checkpoint::FolderOwner;
  const std::string runs = checkpoint::runs_within(
      folder, {FolderOwner::kTrain, FolderOwner::kServe, FolderOwner::kJoin});
  throw Error(fmt::format("{}: not a Thinwire folder; {}", folder.string(),
                          runs.empty() ? fmt::format("expected {}", kKnown)
                                       : "name one of its runs (newest first): " + runs));
}

// The text of a file, if it is JSON.
std::string json_text(const fs::path& file) {
  std::string text = read_text_file(file);
  if (is_deep_json(text)) {
    throw Error(fmt::format("{} is damaged: it is {}", file.string(), json_fault(text)));
  }
  try {
    (void)parse_json<nlohmann::json>(text);
    return text;
  } catch (const nlohmann::json::parse_error& error) {
    const bool ends = error.byte > text.size();
    const auto line = 1 + std::ranges::count(text.substr(0, error.byte), '\n');
    throw Error(fmt::format(
        "{} is damaged: {}", file.string(),
        ends ? "its JSON does not end" : fmt::format("it is not JSON from line {} on", line)));
  }
}

std::string toml_text(const fs::path& file) {
  std::string text = read_text_file(file);
  (void)config::parse_toml(text, file.string());
  return text.empty() ? fmt::format("{} is empty\n", file.string()) : text;
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
  if (ending == ".json") return json_text(file);
  if (ending == ".toml") return toml_text(file);
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
  if (!file_exists(path)) throw Error(fmt::format("{}: there is no such file", path.string()));
  return fs::is_directory(path) ? describe_folder(path) : describe_file(path);
}

void add_inspect(CLI::App& app) {
  auto* command = add_command(app, "inspect", "Shows any file Thinwire writes in readable form");
  const auto paths = std::make_shared<std::vector<std::string>>();
  command->add_option("paths", *paths, "Files and folders")->required()->check(refuse_empty);
  command->callback([paths] { run_inspect(*paths); });
}

}  // namespace thinwire::cli
