// Every option of every subcommand gets absurd values: the command must either succeed sensibly or
// print a message that names the option or the value. Options are found in the program itself, so
// new ones are covered automatically.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

#include "tests/cli/program_run.h"
#include "tests/tiny_run.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/program.h"
#include "thinwire/launch/train.h"

namespace thinwire::cli {
namespace {

using Words = std::vector<std::string>;

const Words kAbsurd = {
    "0", "-1",  "nan", "inf", "-inf", "1e300", "-1e300", "1e-300", "9223372036854775808",
    "",  "text"};

class AbsurdValues : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    home_ = fs::current_path();
    folder_ = fs::path(testing::TempDir()) / "thinwire" / "cli_absurd";
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "work");
    prepare_tiny_corpus(folder_);
    const config::Recipe recipe = tiny_recipe(
        folder_, {"train.steps=1", "schedule.warmup=0", "model.vocab=258", "eval.rows=1"});
    write_file(folder_ / "recipe.toml", config::print_recipe(recipe));
    write_file(folder_ / "words.txt", "a few words\n");
    write_file(folder_ / "grid.toml", "recipe = 'no such file'\n");
    launch::train(recipe, {});
    fs::current_path(folder_ / "work");  // where files of absurd names go
  }
  static void TearDownTestSuite() { fs::current_path(home_); }

  static std::string path(const char* name) { return (folder_ / name).string(); }

  // Arguments for each command that work, or at least are parsed; options are added to them.
  static std::map<std::string, Words> calls() {
    const std::string recipe = path("recipe.toml"), run = path("run");
    std::map<std::string, Words> calls;
    calls["prepare"] = calls["train"] = {recipe};
    calls["sweep"] = {path("grid.toml")};
    calls["compare"] = calls["inspect"] = calls["plan fit"] = {run};
    calls["plan"] = {recipe, "--flops", "1T"};
    calls["init"] = {path("first.toml"), "--text", path("words.txt"), "--flops", "1T"};
    calls["plan distro"] = calls["plan efficiency"] = calls["plan loss"] = calls["recipe"] = {};
    calls["plan utilization"] = {"--parameters", "1M", "--layers", "2", "--step-seconds", "1"};
    calls["generate"] = {run, "--prompt", "thin", "--tokens", "1", "--threads", "1"};
    calls["chat"] = {run,        "--prompt", "thin",      "--template", path("words.txt"),
                     "--tokens", "1",        "--threads", "1"};
    calls["eval"] = {run, "perplexity", "--text", path("words.txt"), "--threads", "1"};
    calls["export"] = {run, path("hf")};
    calls["import"] = {path("hf"), path("imported")};
    calls["bench codec"] = {"--layers", "1", "--k", "1", "--rounds", "1"};
    calls["bench machine"] = {"--threads", "1", "--seconds", "0.001"};
    calls["bench speed"] = {recipe, "--steps", "1", "--warmup", "0"};
    calls["completion"] = {"bash"};
    calls["logits"] = {run, "--tokens", "1,2", "--threads", "1"};
    calls["plan coverage"] = {run};
    calls["plan memory"] = {recipe};
    calls["serve"] = {path("words.txt")};  // is no recipe
    calls["join"] = calls["doctor"] = calls["status"] =
        calls["relay"] = {"localhost:1", "--token", "none"};
    calls["keys list"] = calls["keys issue"] = {run};
    calls["keys revoke"] = {run, "nobody"};
    calls["keys account"] = {path("cluster"), "operator"};  // a name that is taken
    return calls;
  }

  static inline fs::path home_;
  static inline fs::path folder_;
};

// Whether the text shows NaN or infinity, as JSON or text prints them.
bool shows_nonsense(const std::string& text) {
  static const std::regex nonsense(R"((^|[\s:,(\[])-?(nan|inf)($|[\s,;)\]]))");
  return std::regex_search(text, nonsense);
}

Words split(const std::string& text) {
  Words words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// The position of the option among the command's positional arguments.
size_t position(const CLI::App& command, const CLI::Option& option) {
  size_t before = 0;
  for (const CLI::Option* one : command.get_options()) {
    if (one == &option) break;
    before += one->get_positional() ? 1 : 0;
  }
  return before;
}

// The arguments of the call with the option set to the value.
Words with_option(const CLI::App& command, const Words& words, const CLI::Option& option,
                  const std::string& value) {
  Words all = words;
  if (option.get_positional()) {
    const size_t index = std::min(position(command, option), all.size());
    const auto at = all.begin() + static_cast<ptrdiff_t>(index);
    if (at < all.end() && !at->starts_with("--")) {
      *at = value;
    } else {
      all.insert(at, value);
    }
    return all;
  }
  const std::string name = option.get_name();
  const auto present = std::ranges::find(all, name);
  if (present != all.end()) {
    *(present + 1) = value;
  } else {
    all.push_back(name);
    all.push_back(value);
  }
  return all;
}

bool is_named(const CLI::Option& option, const std::string& value, const std::string& message) {
  const auto has = [&](const std::string& text) { return message.find(text) != std::string::npos; };
  const bool telling = option.get_positional() ? !value.empty() : value.size() > 1;
  return has(option.get_name()) || has(label(option)) || has("'" + value + "'") ||
         (telling && has(value));
}

// Text such as a path or a prompt may be echoed as it is.
bool is_echoed(const CLI::Option& option) {
  return option.get_positional() || option.get_type_name() == "TEXT";
}

std::string without(std::string text, const std::string& word) {
  for (size_t at; !word.empty() && (at = text.find(word)) != std::string::npos;) {
    text.erase(at, word.size());
  }
  return text;
}

void expect_sense(const Words& words, const CLI::Option& option, const std::string& value,
                  const ProgramRun& plain) {
  const ProgramRun run = run_thinwire(words);
  const std::string shown = fmt::format("thinwire {}", fmt::join(words, " "));
  EXPECT_TRUE(run.status >= 0 && run.status <= 2) << shown;
  const std::string shows = is_echoed(option) ? without(run.out, value) : run.out;
  EXPECT_FALSE(shows_nonsense(shows)) << shown << "\n" << run.out;
  if (run.status == 0 || run.err == plain.err) return;
  EXPECT_TRUE(is_named(option, value, run.err)) << shown << "\n" << run.err;
  EXPECT_EQ(run.err.find("not enough memory"), std::string::npos) << shown;
}

// Every command that can be run, by its name.
void collect(const CLI::App& app, const std::string& name,
             std::map<std::string, const CLI::App*>& commands) {
  const auto subcommands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* one : subcommands) {
    if (one->get_name().empty()) continue;  // a group of options
    collect(*one, name.empty() ? one->get_name() : name + " " + one->get_name(), commands);
  }
  if (!name.empty() && app.get_require_subcommand_min() == 0) commands[name] = &app;
}

TEST_F(AbsurdValues, EndWithSenseOrNameTheOption) {
  CLI::App app;
  add_commands(app);
  std::map<std::string, const CLI::App*> commands;
  collect(app, "", commands);
  const auto known = calls();
  for (const auto& [name, command] : commands) {
    ASSERT_TRUE(known.contains(name)) << "say in calls() how " << name << " is called";
    const Words path = split(name);
    const auto called_with = [&](const Words& words) {
      Words all = path;
      all.insert(all.end(), words.begin(), words.end());
      return all;
    };
    const ProgramRun plain = run_thinwire(called_with(known.at(name)));
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() == 0) continue;  // a flag
      for (const std::string& value : kAbsurd) {
        expect_sense(called_with(with_option(*command, known.at(name), *option, value)), *option,
                     value, plain);
        for (const auto& left : fs::directory_iterator(folder_ / "work")) fs::remove_all(left);
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::cli
