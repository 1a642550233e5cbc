#include "thinwire/cli/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/base/plain_message.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/output.h"
#include "thinwire/cli/version.h"
#include "thinwire/config/values.h"

namespace thinwire::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

// The last resort: sizes are predicted before anything large is made.
constexpr const char* kOutOfMemory =
    "there is not enough memory for this; `thinwire plan RECIPE` predicts what a run needs, and "
    "smaller train.microbatch, train.sequence or model.* need less";

// Nothing can be done where stderr's reader has gone away, too.
int report(const std::string& what, int status) {
  std::fputs(fmt::format("thinwire: {}\n", what).c_str(), stderr);
  return status;
}

// The command that has words left over, or the last one that was reached.
CLI::App& blamed(CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() || !app.remaining().empty() ? app : blamed(*chosen.back());
}

// "there is no command", "plan fit has no option".
std::string has_no(const CLI::App& app, const char* what) {
  std::string names;
  for (const CLI::App* one = &app; one->get_parent() != nullptr; one = one->get_parent()) {
    names.insert(0, one->get_name() + " ");
  }
  return names.empty() ? fmt::format("there is no {}", what)
                       : fmt::format("{}has no {}", names, what);
}

// What could stand where the word stands: subcommands, or options where it begins like one.
std::vector<std::string> names_like(CLI::App& app, bool option) {
  std::vector<std::string> names;
  if (!option) {
    for (const CLI::App* one : app.get_subcommands({})) names.push_back(one->get_name());
    std::erase(names, "");  // groups of options
    return names;
  }
  for (const CLI::Option* one : app.get_options()) {
    for (const std::string& name : one->get_lnames()) {
      if (!one->get_group().empty()) names.push_back("--" + name);
    }
  }
  return names;
}

// Which misspelling parsing failed at; empty: none that is known.
std::string misspelling(CLI::App& app) {
  CLI::App& command = blamed(app);
  const std::vector<std::string> rest = command.remaining();
  if (rest.empty()) return {};
  const std::string word = rest.front().substr(0, rest.front().find('='));
  const bool option = word.starts_with("-");
  const std::vector<std::string> names = names_like(command, option);
  const std::string near = config::nearest_name(word, names);
  const char* what = option ? "option" : "command";
  if (!near.empty()) {
    return fmt::format("{} {}; did you mean {}?", has_no(command, what), word, near);
  }
  if (option) return fmt::format("{} {}", has_no(command, what), word);
  if (names.empty()) return {};
  return fmt::format("{} {}; the commands are {}", has_no(command, what), word,
                     fmt::join(names, ", "));
}

int run(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    const std::string message = error.get_exit_code() == 0 ? "" : misspelling(app);
    if (!message.empty()) return report(message, kWrongUse);
    std::ostringstream help;
    const bool asked = app.exit(error, help) == 0;
    write_output(help.str());
    return asked ? 0 : kWrongUse;
  }
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  CLI::App app("Trains and fine-tunes language models over thin wires and in thin memory.",
               "thinwire");
  app.footer(
      "Exit status: 0 done, 1 failed, 2 wrong use. An interrupted command ends by the signal that\n"
      "interrupted it (a shell shows 130 for Ctrl-C, 143 for SIGTERM).");
  app.require_subcommand(1);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that outgrows the limit on files is a failed write
  app.set_version_flag("--version", version_text, "Version, commit, and what it was built with");
  try {
    add_commands(app);
    return with_checked_output([&] { return run(app, argc, argv); });
  } catch (const Interrupted& interrupted) {
    report(interrupted.what(), kFailed);
    end_by_caught_signal();
    return kFailed;
  } catch (const UsageError& error) {
    return report(error.what(), kWrongUse);
  } catch (const std::bad_alloc&) {
    return report(kOutOfMemory, kFailed);
  } catch (const std::length_error&) {  // of a container
    return report(kOutOfMemory, kFailed);
  } catch (const std::exception& error) {
    return report(plain_message(error), kFailed);
  }
}

}  // namespace thinwire::cli
