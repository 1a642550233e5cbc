#include "thinwire/base/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thinwire/base/error.h"

namespace thinwire {
namespace {

fs::path fresh_log() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  fs::path log = fs::path(testing::TempDir()) / (std::string("process_") + test->name());
  fs::remove(log);
  return log;
}

TEST(Process, PassesInputAndReturnsOutput) {
  const std::string input(1'000'000, 'x');
  const ProcessOutput run = run_process({"cat", "-"}, input);
  EXPECT_TRUE(run.state.ok());
  EXPECT_EQ(run.text, input);
}

TEST(Process, NoCharacterOfAnArgumentIsSpecial) {
  EXPECT_EQ(run_process({"printf", "%s", "a b;$HOME'\"`*"}, "").text, "a b;$HOME'\"`*");
}

TEST(Process, ReportsTheExitStatus) {
  const ProcessOutput run = run_process({"sh", "-c", "echo wrong >&2; exit 3"}, "");
  EXPECT_FALSE(run.state.ok());
  EXPECT_EQ(run.state.describe(), "exit status 3");
  EXPECT_EQ(run.text, "wrong\n");
}

TEST(Process, NamesAProgramThatCannotBeRun) {
  try {
    run_process({"no-such-program"}, "");
    FAIL() << "ran a program that does not exist";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cannot run no-such-program: No such file or directory");
  }
}

TEST(Process, RunsBesideItsParentAndCanBeSignalled) {
  Process child({"sleep", "1000"}, fresh_log(), /*own_group=*/true);
  EXPECT_FALSE(child.poll().has_value());
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait().describe(), "signal 15 (Terminated)");
  EXPECT_TRUE(child.poll().has_value());
}

// If a parent ignores a signal, e.g. while it waits for its children, the children still receive
// it.
TEST(Process, ChildrenHearSignalsThatTheirParentIgnores) {
  const auto old_handler = signal(SIGINT, SIG_IGN);
  Process child({"sleep", "1000"}, fresh_log(), /*own_group=*/true);
  signal(SIGINT, old_handler);
  child.signal(SIGINT);
  EXPECT_EQ(child.wait().describe(), "signal 2 (Interrupt)");
}

// The grandchild holds the pipe's writing end, so the pipe ends when the grandchild does.
TEST(Process, ChildrenOfAKilledParentEnd) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const fs::path log = fresh_log();
  const pid_t parent = fork();
  if (parent == 0) {
    const std::string started = "echo x > /dev/fd/" + std::to_string(ends[1]) + "; exec sleep 1000";
    const Process child({"sh", "-c", started}, log, /*own_group=*/true);
    while (true) pause();
  }
  close(ends[1]);
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1) << "the child did not start";
  ASSERT_EQ(kill(parent, SIGKILL), 0);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  while (read(ends[0], &byte, 1) > 0) {
  }
  close(ends[0]);
}

TEST(Process, AddsOutputToALog) {
  const fs::path log = fresh_log();
  for (const char* word : {"one", "two"}) {
    EXPECT_TRUE(Process({"echo", word}, log, /*own_group=*/false).wait().ok());
  }
  EXPECT_EQ(read_text_file(log), "one\ntwo\n");
}

TEST(Process, FindsInstalledPrograms) {
  EXPECT_TRUE(find_program("sh").ends_with("/sh"));
  EXPECT_EQ(find_program("no-such-program"), "");
}

}  // namespace
}  // namespace thinwire
