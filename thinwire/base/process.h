// Child processes, started without a shell.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/file.h"

namespace thinwire {

// How a child ended.
struct ExitState {
  int status = 0;  // exit status, or the number of the signal that ended it
  bool signalled = false;
  bool ok() const { return status == 0 && !signalled; }
  // "exit status 1", "signal 9 (Killed)"
  std::string describe() const;
};

// A running child. Destruction does not end it, but waits for its end. Used by one thread. If that
// thread or its process ends in any way, SIGKILL included, the child gets a SIGTERM.
class Process {
 public:
  // Starts command[0], looked up in PATH, with the rest as arguments; stdout and stderr are
  // appended to `log`, stdin is empty. With `own_group` the child does not receive the terminal's
  // Ctrl-C, so that its parent decides. Throws Error naming the program and the system's reason.
  Process(const std::vector<std::string>& command, const fs::path& log, bool own_group);
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  // How it ended, or nothing while it runs.
  std::optional<ExitState> poll();
  ExitState wait();
  void signal(int number);

 private:
  pid_t pid_ = -1;
  std::optional<ExitState> ended_;
};

struct ProcessOutput {
  ExitState state;
  std::string text;  // stdout and stderr together
};

// Runs a program to its end with `input` as its standard input; like a Process, it ends if its
// parent does. Throws Error as above.
ProcessOutput run_process(const std::vector<std::string>& command, std::string_view input);

// The executable of this name beside this program, as packages have it, or else the first in PATH;
// empty if there is none.
std::string find_program(std::string_view name);

}  // namespace thinwire
