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
#include <system_error>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/output.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::cli {

// The macros are set in thinwire/CMakeLists.txt.
std::string version_text() {
  return fmt::format(
      "thinwire {} (commit {})\n"
      "compiler         {}\n"
      "LibTorch         {}\n"
      "CUDA             {}\n"
      "MPI              {}\n"
      "instruction set  {}{}",
      THINWIRE_VERSION, kCommit, THINWIRE_COMPILER, THINWIRE_TORCH_VERSION, THINWIRE_CUDA_SIDE,
      THINWIRE_MPI_VERSION, tensor::instruction_set(),
      tensor::has_fast_bf16_gemm() ? ", bf16 products" : "");
}

namespace {

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

// The last resort: normally sizes are predicted before anything large is allocated.
constexpr const char* kOutOfMemory =
    "there is not enough memory for this; `thinwire plan RECIPE` predicts what a run needs, and "
    "smaller train.microbatch, train.sequence or model.* need less";

bool current_folder_is_gone() {
  std::error_code error;
  (void)fs::current_path(error);
  return error == std::errc::no_such_file_or_directory;
}

// The end of every command's help.
constexpr const char* kFooter =
    "Exit status: 0 done, 1 failed, 2 usage error. An interrupted command ends by the signal "
    "that\ninterrupted it (a shell shows 130 for Ctrl-C, 143 for SIGTERM).";

// The examples in the program's own help.
constexpr const char* kExamples =
    "Examples:\n"
    "  thinwire train mine.toml train.steps=2000        train on your own text, with one field "
    "changed\n"
    "  thinwire join example.org:4333 --token TW5...    take part in somebody else's run\n"
    "  thinwire generate runs/mine --prompt 'Once'      continue a text with what was trained\n"
    "\n"
    "`thinwire COMMAND --help` has the options of a command, `thinwire recipe --explain` the "
    "fields of a\n"
    "recipe.\n"
    "\n";

// Nothing can be done if stderr's reader has gone, too.
int report(const std::string& what, int status) {
  const char* const hint =
      current_folder_is_gone() ? " (the current folder was deleted: change to another one)" : "";
  std::fputs(fmt::format("thinwire: {}{}\n", what, hint).c_str(), stderr);
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
  obey_signals_if_first();
  CLI::App app(
      "Trains and fine-tunes language models over thin wires, which are ordinary links between "
      "machines,\nand in thin memory.",
      "thinwire");
  app.footer(kFooter);
  app.require_subcommand(1);
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the size limit becomes a failed write
  app.add_option_function<std::string>("--instructions", tensor::limit_instructions,
                                       "Compute as an older processor would: avx2 or avx512 "
                                       "(without bf16 and AMX)")
      ->type_name("SET");
  app.set_version_flag("--version", version_text,
                       "Print version, commit, and what it was built with");
  try {
    add_commands(app);  // each takes the footer as it is now
    app.footer(std::string(kExamples) + kFooter);
    return with_checked_output([&] { return run(app, argc, argv); });
  } catch (const Interrupted& interrupted) {
    const int signal = interrupts().first;
    report(interrupted.what(), status_of_signal(signal));
    std::fflush(nullptr);
    if (interrupted.is_rank()) return status_of_signal(signal);
    end_by_signal(signal);
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
