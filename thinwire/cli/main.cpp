// thinwire: trains language models over thin wires. Exit status: 0 done, 1 failed, 2 wrong use;
// interrupted work ends by the signal that interrupted it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/cli/command.h"

namespace {

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

int report(const char* what, int status) {
  std::fprintf(stderr, "thinwire: %s\n", what);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
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
    return app.exit(error) == 0 ? 0 : kWrongUse;
  } catch (const thinwire::Interrupted& interrupted) {
    report(interrupted.what(), kFailed);
    thinwire::end_by_caught_signal();
    return kFailed;
  } catch (const thinwire::UsageError& error) {
    return report(error.what(), kWrongUse);
  } catch (const std::exception& error) {
    return report(error.what(), kFailed);
  }
  return 0;
}
