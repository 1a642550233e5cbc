// thinwire: trains language models over thin wires. Exit status: 0 done, 1 failed, 2 wrong use;
// interrupted work ends by the signal that interrupted it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/base/plain_message.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/output.h"

namespace {

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

int report(const std::string& what, int status) {
  std::fprintf(stderr, "thinwire: %s\n", what.c_str());
  return status;
}

int run(int argc, char** argv) {
  CLI::App app("Trains and fine-tunes language models over thin wires and in thin memory.",
               "thinwire");
  app.footer(
      "Exit status: 0 done, 1 failed, 2 wrong use. An interrupted command ends by the signal that\n"
      "interrupted it (a shell shows 130 for Ctrl-C, 143 for SIGTERM).");
  app.require_subcommand(1);
  app.set_version_flag("--version", THINWIRE_VERSION);
  try {
    thinwire::cli::add_commands(app);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream help;
    const bool asked = app.exit(error, help) == 0;
    thinwire::cli::write_output(help.str());
    return asked ? 0 : kWrongUse;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return thinwire::cli::with_checked_output([&] { return run(argc, argv); });
  } catch (const thinwire::Interrupted& interrupted) {
    report(interrupted.what(), kFailed);
    thinwire::end_by_caught_signal();
    return kFailed;
  } catch (const thinwire::UsageError& error) {
    return report(error.what(), kWrongUse);
  } catch (const std::exception& error) {
    return report(thinwire::plain_message(error), kFailed);
  }
}
