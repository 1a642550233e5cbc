#include "thinwire/base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire {
namespace {

class Descriptor {
 public:
  Descriptor(int file, std::string_view what) : file_(file) {
    if (file < 0) throw Error(fmt::format("cannot open {}: {}", what, std::strerror(errno)));
  }
  ~Descriptor() { ::close(file_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

// The child's signal state is set back to the default, whatever this process blocks or ignores.
pid_t spawn(const std::vector<std::string>& command, int input, int output, bool own_group) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) sigaddset(&defaults, number);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           static_cast<int16_t>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                (own_group ? POSIX_SPAWN_SETPGROUP : 0)));

  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int error =
      posix_spawnp(&pid, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw Error(fmt::format("cannot run {}: {}", command[0], std::strerror(error)));
  return pid;
}

ExitState exit_state(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {WTERMSIG(wait_status), true};
  return {WEXITSTATUS(wait_status), false};
}

ExitState wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return exit_state(status);
}

int memory_file(const char* name) { return ::memfd_create(name, MFD_CLOEXEC); }

}  // namespace

std::string ExitState::describe() const {
  if (!signalled) return fmt::format("exit status {}", status);
  return fmt::format("signal {} ({})", status, ::strsignal(status));
}

Process::Process(const std::vector<std::string>& command, const fs::path& log, bool own_group) {
  const Descriptor input(::open("/dev/null", O_RDONLY | O_CLOEXEC), "/dev/null");
  const Descriptor output(::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644),
                          log.string());
  pid_ = spawn(command, input.get(), output.get(), own_group);
}

Process::~Process() {
  if (pid_ > 0) wait();
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), ended_(std::exchange(other.ended_, std::nullopt)) {}

std::optional<ExitState> Process::poll() {
  int status = 0;
  if (!ended_ && ::waitpid(pid_, &status, WNOHANG) == pid_) ended_ = exit_state(status);
  return ended_;
}

ExitState Process::wait() {
  if (!ended_) ended_ = wait_for(pid_);
  return *ended_;
}

void Process::signal(int number) {
  if (!poll()) ::kill(pid_, number);
}

ProcessOutput run_process(const std::vector<std::string>& command, std::string_view input) {
  const Descriptor in(memory_file("input"), "a file in memory");
  const Descriptor out(memory_file("output"), "a file in memory");
  while (!input.empty()) {
    const ssize_t written = ::write(in.get(), input.data(), input.size());
    if (written < 0 && errno != EINTR) {
      throw Error(fmt::format("cannot pass input to {}: {}", command[0], std::strerror(errno)));
    }
    input.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
  ::lseek(in.get(), 0, SEEK_SET);
  ProcessOutput result;
  result.state = wait_for(spawn(command, in.get(), out.get(), /*own_group=*/false));
  result.text = read_text_file(fmt::format("/proc/self/fd/{}", out.get()));
  return result;
}

bool have_program(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    if (::access(fmt::format("{}/{}", folder, name).c_str(), X_OK) == 0) return true;
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return false;
}

}  // namespace thinwire
