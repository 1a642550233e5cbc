#include "thinwire/events/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <stdexcept>

#include "thinwire/base/clock.h"

namespace thinwire::events {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A terminal of its own, and what its screen shows.
class FakeTerminal {
 public:
  explicit FakeTerminal(uint16_t columns) {
    winsize size{};
    size.ws_col = columns;
    size.ws_row = 24;
    if (openpty(&screen_, &program_, nullptr, nullptr, &size) != 0) {
      throw std::runtime_error("openpty failed");
    }
    fcntl(screen_, F_SETFL, O_NONBLOCK);
  }
  ~FakeTerminal() {
    close(screen_);
    close(program_);
  }
  FakeTerminal(const FakeTerminal&) = delete;
  FakeTerminal& operator=(const FakeTerminal&) = delete;

  int file() const { return program_; }
  void resize(uint16_t columns) {
    winsize size{};
    size.ws_col = columns;
    ioctl(screen_, TIOCSWINSZ, &size);
  }
  const std::string& raw() {
    char buffer[4096];
    for (ssize_t got = 0; (got = read(screen_, buffer, sizeof(buffer))) > 0;) {
      raw_.append(buffer, static_cast<size_t>(got));
    }
    return raw_;
  }
  // The lines as a person sees them now.
  std::vector<std::string> lines() {
    std::vector<std::string> result(1);
    size_t at = 0;
    const std::string& text = raw();
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r') {
        at = 0;
      } else if (text[i] == '\n') {
        result.emplace_back();
        at = 0;
      } else if (text[i] == '\x1b') {
        const size_t end = text.find_first_of("Km", i);
        if (text[end] == 'K') result.back().resize(std::min(at, result.back().size()));
        i = end;
      } else {
        result.back().resize(std::max(result.back().size(), at + 1), ' ');
        result.back()[at++] = text[i];
      }
    }
    return result;
  }

 private:
  int screen_ = -1;
  int program_ = -1;
  std::string raw_;
};

class ProgressTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C", 1);
    unsetenv("NO_COLOR");
  }
  static ProgressOptions on(const FakeTerminal& terminal) {
    ProgressOptions options;
    options.file = terminal.file();
    return options;
  }
};

const std::vector<ProgressField> kFields = {{"loss", "3.214"}, {"", "12.3 k tokens/s"}};

TEST_F(ProgressTest, LiveLineShowsLabelCountAndFields) {
  FakeTerminal terminal(100);
  Progress progress("train", 1000, on(terminal));
  progress.update(420, kFields);
  ASSERT_EQ(terminal.lines().size(), 1U);
  EXPECT_THAT(terminal.lines()[0],
              ContainsRegex("^train  ==+-+  420/1000  loss 3.214  12.3 k tokens/s  < 1 s left$"));
}

TEST_F(ProgressTest, LiveLineErasesItself) {
  FakeTerminal terminal(100);
  {
    Progress progress("train", 1000, on(terminal));
    progress.update(420, kFields);
  }
  EXPECT_THAT(terminal.lines(), ElementsAre(""));
}

TEST_F(ProgressTest, LiveLineNeverWraps) {
  for (const uint16_t columns : {5, 12, 20, 30, 40, 50, 60, 80, 132}) {
    FakeTerminal terminal(columns);
    Progress progress("train", 1000, on(terminal));
    progress.update(420, kFields);
    EXPECT_LT(terminal.lines()[0].size(), columns);
  }
}

TEST_F(ProgressTest, NarrowTerminalsLoseTheBarThenTheLastFields) {
  FakeTerminal wide(60);
  FakeTerminal narrow(40);
  {
    Progress progress("train", 1000, on(wide));
    progress.update(420, kFields);
  }
  {
    Progress progress("train", 1000, on(narrow));
    progress.update(420, kFields);
  }
  EXPECT_THAT(wide.raw(), HasSubstr("tokens/s"));
  EXPECT_THAT(wide.raw(), Not(HasSubstr("==")));
  EXPECT_THAT(narrow.raw(), HasSubstr("3.214"));
  EXPECT_THAT(narrow.raw(), Not(HasSubstr("tokens/s")));
}

TEST_F(ProgressTest, LiveLineIsRewrittenAtMostTenTimesASecond) {
  FakeTerminal terminal(100);
  const Stopwatch watch;
  Progress progress("train", 1000, on(terminal));
  for (int step = 1; step <= 1000; ++step) progress.update(step, kFields);
  const auto draws = std::count(terminal.raw().begin(), terminal.raw().end(), '\r');
  EXPECT_LE(static_cast<double>(draws), 1 + watch.seconds() * 10);
  EXPECT_GE(draws, 1);
}

TEST_F(ProgressTest, MessagesStandAboveTheLiveLine) {
  FakeTerminal terminal(100);
  Progress progress("train", 1000, on(terminal));
  progress.update(420, kFields);
  print_message("checkpoint written");
  const auto lines = terminal.lines();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], "checkpoint written");
  EXPECT_THAT(lines[1], StartsWith("train"));
}

TEST_F(ProgressTest, ASecondProgressStaysSilent) {
  FakeTerminal terminal(100);
  Progress outer("train", 1000, on(terminal));
  outer.update(420, kFields);
  {
    Progress inner("evaluate", 10, on(terminal));
    EXPECT_FALSE(inner.due(5));
    inner.update(5, {});
    inner.finish();
  }
  EXPECT_THAT(terminal.raw(), Not(HasSubstr("evaluate")));
  EXPECT_THAT(terminal.lines()[0], StartsWith("train"));
}

TEST_F(ProgressTest, ColourIsUsedUnlessNoColorIsSet) {
  FakeTerminal coloured(100);
  {
    Progress progress("train", 1000, on(coloured));
    progress.update(420, kFields);
  }
  EXPECT_THAT(coloured.raw(), HasSubstr("\x1b[1mtrain\x1b[0m"));
  setenv("NO_COLOR", "1", 1);
  FakeTerminal plain(100);
  {
    Progress progress("train", 1000, on(plain));
    progress.update(420, kFields);
  }
  EXPECT_THAT(plain.raw(), HasSubstr("train"));
  EXPECT_THAT(plain.raw(), Not(ContainsRegex("\x1b\\[[0-9]*m")));
}

TEST_F(ProgressTest, ADumbTerminalGetsPlainLines) {
  setenv("TERM", "dumb", 1);
  FakeTerminal terminal(100);
  ProgressOptions options = on(terminal);
  options.plain_every = 1;
  Progress progress("train", 1000, options);
  progress.update(420, kFields);
  EXPECT_THAT(terminal.raw(), Not(HasSubstr("\x1b")));
  EXPECT_EQ(terminal.lines().size(), 2U);
}

class PlainProgress : public ProgressTest {
 protected:
  void SetUp() override {
    ProgressTest::SetUp();
    ASSERT_EQ(pipe2(pipe_, O_NONBLOCK), 0);
  }
  void TearDown() override {
    close(pipe_[0]);
    close(pipe_[1]);
  }
  std::string output() {
    char buffer[4096];
    const ssize_t got = read(pipe_[0], buffer, sizeof(buffer));
    return got > 0 ? std::string(buffer, static_cast<size_t>(got)) : "";
  }

  int pipe_[2] = {-1, -1};
};

TEST_F(PlainProgress, PrintsALineEverySoManySteps) {
  ProgressOptions options;
  options.file = pipe_[1];
  options.plain_every = 50;
  Progress progress("train", 120, options);
  for (int step = 1; step <= 120; ++step) progress.update(step, {{"loss", "3.2"}});
  progress.finish();
  progress.finish();
  EXPECT_THAT(output(), testing::MatchesRegex("train  50/120  loss 3.2  < 1 s left\n"
                                              "train  100/120  loss 3.2  < 1 s left\n"
                                              "train  120/120  loss 3.2\n"));
}

TEST_F(PlainProgress, CountsFromWhereThisProcessBegan) {
  ProgressOptions options;
  options.file = pipe_[1];
  options.plain_every = 50;
  options.start = 90;
  Progress progress("train", 120, options);
  progress.update(99, {});
  EXPECT_EQ(output(), "");
  progress.update(100, {});
  EXPECT_THAT(output(), StartsWith("train  100/120"));
}

TEST_F(PlainProgress, PrintsALineAfterSoManySeconds) {
  ProgressOptions options;
  options.file = pipe_[1];
  options.plain_interval_s = 1000;
  options.bytes = true;
  Progress slow("prepare", 36'000'000, options);
  slow.update(1'000'000, {});
  EXPECT_EQ(output(), "");
  slow.finish();
  EXPECT_THAT(output(), StartsWith("prepare  1.00 MB/36.0 MB"));
}

TEST_F(PlainProgress, AnUnknownTotalHasNoTimeLeft) {
  ProgressOptions options;
  options.file = pipe_[1];
  options.plain_interval_s = 0;
  Progress progress("read", 0, options);
  progress.update(7, {});
  EXPECT_EQ(output(), "read  7\n");
}

TEST_F(ProgressTest, ShowsTheTimeLeftAsItIsTold) {
  FakeTerminal terminal(80);
  Progress progress("run", 100, on(terminal));
  progress.update(50, {}, 3600);
  EXPECT_THAT(terminal.raw(), HasSubstr("1 h 00 min left"));
}

TEST_F(ProgressTest, ShowsNoTimeLeftWhereItIsNotKnown) {
  FakeTerminal terminal(80);
  Progress progress("run", 100, on(terminal));
  progress.update(50, {}, std::nullopt);
  EXPECT_THAT(terminal.raw(), Not(HasSubstr("left")));
}

}  // namespace
}  // namespace thinwire::events
