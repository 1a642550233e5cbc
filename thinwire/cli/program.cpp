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

#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/base/plain_message.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/output.h"
#include "thinwire/cli/refusal.h"
#include "thinwire/cli/version.h"
#include "thinwire/tensor/products/instruction_set.h"

namespace thinwire::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

// The last resort: normally sizes are predicted before anything large is allocated.
constexpr const char* kOutOfMemory =
    "there is not enough memory for this; `thinwire plan RECIPE` predicts what a run needs, and "
    "smaller train.microbatch, train.sequence or model.* need less";

// Nothing can be done if stderr's reader has gone, too.
int report(const std::string& what, int status) {
  std::fputs(fmt::format("thinwire: {}\n", what).c_str(), stderr);
  return status;
}

int run(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& asked) {  // for help, or the version
    std::ostringstream answer;
    app.exit(asked, answer);
    write_output(answer.str());
    return 0;
  } catch (const CLI::ParseError& error) {
    return report(describe_refusal(app, error), kWrongUse);
  }
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  CLI::App app("Trains and fine-tunes language models over thin wires and in thin memory.",
               "thinwire");
  app.footer(
      "Exit status: 0 done, 1 failed, 2 usage error. An interrupted command ends by the signal "
      "that\ninterrupted it (a shell shows 130 for Ctrl-C, 143 for SIGTERM).");
  app.require_subcommand(1);
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the size limit becomes a failed write
  app.add_option_function<std::string>("--instructions", tensor::limit_instructions,
                                       "Compute with no newer instructions than these, as an older "
                                       "processor would: avx2 or avx512 (without bf16 and AMX)")
      ->type_name("SET");
  app.set_version_flag("--version", version_text,
                       "Print version, commit, and what it was built with");
  try {
    add_commands(app);
    return with_checked_output([&] { return run(app, argc, argv); });
  } catch (const Interrupted& interrupted) {
    report(interrupted.what(), kFailed);
    reraise_caught_signal();
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
