#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "thinwire/transport/nats/nats_server.h"

namespace thinwire::transport {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kLimit = 1000;

class ServerLogTest : public testing::Test {
 protected:
  ServerLogTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ServerLogTest() override { fs::remove_all(folder_); }

  void append(std::string_view text) const {
    std::ofstream(file_, std::ios::app | std::ios::binary) << text;
  }
  std::vector<std::string> read() {
    std::vector<std::string> lines;
    log_.read([&](std::string_view line) { lines.emplace_back(line); });
    return lines;
  }

  const fs::path folder_ = tests::memory_folder() / "server_log_test";
  const fs::path file_ = folder_ / "nats.log";
  ServerLog log_{file_, kLimit};
};

TEST_F(ServerLogTest, IsReadFromTheMarkOn) {
  EXPECT_THAT(read(), IsEmpty()) << "there is no file yet";
  append("[7] 2026/11/28 14:47:10.162783 [INF] Reloaded server configuration\n");
  log_.mark();
  EXPECT_THAT(read(), IsEmpty());
  append("[7] 2026/11/28 14:47:11.162783 [INF] Server is rea");
  EXPECT_THAT(read(), IsEmpty()) << "the line has no end yet";
  append("dy\nnats-server: nats.conf:2:1: unknown field\n");
  EXPECT_THAT(read(),
              ElementsAre("[INF] Server is ready", "nats-server: nats.conf:2:1: unknown field"));
  EXPECT_THAT(read(), IsEmpty());
}

// Both lines are what nats-server 2.9.10 logs about connections without a login.
TEST_F(ServerLogTest, WhatClientsSayIsNoLineOfTheServersOwn) {
  append(R"([15888] 2026/11/28 14:47:32.888568 [ERR] 127.0.0.1:45978 - cid:36157 - "Failed to )"
         R"(reload server configuration:Reloaded\nserver configuration" - authentication error - )"
         R"(Nkey "[ERR] Failed to reload server configuration")"
         "\n");
  append(
      "[15888] 2026/11/28 14:47:32.795389 [ERR] 127.0.0.1:45958 - cid:36155 - maximum control line "
      "exceeded: (snip: \"[ERR] Failed to reload server configuration\"...)\n");
  for (const std::string& line : read()) EXPECT_TRUE(line.starts_with("[ERR] 127.0.0.1:")) << line;
}

TEST_F(ServerLogTest, LongTextsAreReadInBlocks) {
  const std::string line(300, 'x');
  for (int i = 0; i < 1000; ++i) append(line + "\n");
  EXPECT_EQ(read(), std::vector<std::string>(1000, line));
  append(std::string(1 << 20, 'y') + "\n");
  const std::vector<std::string> lines = read();
  ASSERT_EQ(lines.size(), 1);
  EXPECT_LE(lines.front().size(), 128 << 10) << "its rest is not kept";
}

TEST_F(ServerLogTest, IsCutToItsNewestLinesOnceItIsTooLong) {
  append(std::string(kLimit - 1, 'x') + "\n");
  log_.trim();
  EXPECT_EQ(fs::file_size(file_), kLimit);
  append("new\n");
  log_.trim();
  EXPECT_EQ(fs::file_size(file_), 0);
  EXPECT_EQ(read_text_file(file_.string() + ".old"), "new\n") << "half a line is left out";
  append("newer\n");
  EXPECT_EQ(read_text_file(file_), "newer\n");
}

TEST_F(ServerLogTest, IsCutThoughTheDiskIsFull) {
  append(std::string(kLimit + 1, 'x'));
  fs::create_directories(file_.string() + ".old/something");  // so that it cannot be written
  log_.trim();
  EXPECT_EQ(fs::file_size(file_), 0);
}

TEST(WhyNotListening, SaysWhatCanBeDone) {
  const auto why = [](const char* system, bool port_is_known) {
    return why_not_listening(
        std::string(R"([FTL] Error listening on port: 127.0.0.1:443, "listen tcp)") + system + '"',
        443, port_is_known);
  };
  EXPECT_EQ(why(" 127.0.0.1:443: bind: address already in use", false),
            "another program uses port 443; end that program or give another port (0: a free one)");
  EXPECT_EQ(why(" 127.0.0.1:443: bind: address already in use", true),
            "another program uses port 443, at which members of this run look for it; end that "
            "program or give another port (0: a free one)");
  EXPECT_EQ(why(" 127.0.0.1:443: bind: permission denied", false),
            "port 443 is one that only root may use; give a higher one (0: a free one)");
  EXPECT_EQ(why(" 127.0.0.1:443: bind: cannot assign requested address", false),
            "this machine has no such address");
  EXPECT_EQ(why(": lookup example.invalid: no such host", false), "no machine has this name");
  EXPECT_EQ(why(" 127.0.0.1:443: bind: something new", false), "");
  EXPECT_EQ(why_not_listening("[FTL] Can't start JetStream: permission denied", 443, false), "");
}

}  // namespace
}  // namespace thinwire::transport
