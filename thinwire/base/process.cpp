#include "thinwire/base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

// Blocks every signal while a child is created.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

struct ChildSetup {
  char* const* arguments;
  int input;
  int output;
  bool own_group;
  pid_t parent;
  int failure;  // where to write the errno of what failed; closed by success
};

bool put_at(int file, int place) {
  // A file that is already in place only has to survive the exec.
  return file == place ? ::fcntl(file, F_SETFD, 0) == 0 : ::dup2(file, place) == place;
}

// Runs in the child, where only async-signal-safe calls are allowed and signals are blocked.
// Signals are reset to their defaults, whatever the parent blocks or ignores.
[[noreturn]] void become(const ChildSetup& child) {
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) ::signal(number, SIG_DFL);
  bool ready = ::prctl(PR_SET_PDEATHSIG, SIGTERM) == 0;
  if (::getppid() != child.parent) ::_exit(127);  // it died before it could be noticed
  if (child.own_group) ready = ::setpgid(0, 0) == 0 && ready;
  ready = ready && put_at(child.input, STDIN_FILENO) && put_at(child.output, STDOUT_FILENO) &&
          put_at(child.output, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (ready) ::execvp(child.arguments[0], child.arguments);
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(child.failure, &error, sizeof(error));
  ::_exit(127);
}

// Not posix_spawn, with which a child cannot ask for a signal when its parent dies.
pid_t spawn(const std::vector<std::string>& command, int input, int output, bool own_group) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(fmt::format("cannot run {}: {}", command[0], std::strerror(errno)));
  }
  const Descriptor read_end(ends[0], "a pipe");
  std::optional<Descriptor> write_end(std::in_place, ends[1], "a pipe");
  pid_t pid = -1;
  int error = 0;
  {
    const BlockedSignals blocked;
    const pid_t parent = ::getpid();
    pid = ::fork();
    if (pid == 0) become({arguments.data(), input, output, own_group, parent, write_end->get()});
    error = pid < 0 ? errno : 0;
  }
  write_end.reset();
  ssize_t got = 0;
  while (pid > 0 && (got = ::read(read_end.get(), &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (pid > 0 && got > 0) ::waitpid(pid, nullptr, 0);
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

std::string find_program(std::string_view name) {
  std::error_code unknown;
  const fs::path own = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  const char* path = std::getenv("PATH");
  const std::string folders = fmt::format("{}:{}", own.string(), path == nullptr ? "" : path);
  std::string_view rest = folders;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    std::string program = fmt::format("{}/{}", folder, name);
    if (!folder.empty() && ::access(program.c_str(), X_OK) == 0) return program;
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return {};
}

}  // namespace thinwire
