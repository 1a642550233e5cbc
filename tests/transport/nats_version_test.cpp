
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/transport/nats/nats_server.h"

namespace thinwire::transport {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(NatsVersion, IsReadFromWhatTheProgramPrints) {
  EXPECT_EQ(parse_nats_version("nats-server: v2.9.10\n"), (NatsVersion{2, 9, 10}));
  EXPECT_EQ(parse_nats_version("nats-server: v2.12.0-RC.1\n"), (NatsVersion{2, 12, 0}));
  for (const std::string text : {"", "nats-server: v", "nats-server: vdev\n", "nats-server: v2.9\n",
                                 "nats-server: v2.9.\n", "nats-server: v2.-9.1\n", "v2.9.10\n"}) {
    EXPECT_EQ(parse_nats_version(text), std::nullopt) << text;
  }
}

TEST(NatsVersion, FaultsAreNamedUntilTheyAreMended) {
  EXPECT_THAT(describe_nats("/usr/bin/nats-server", NatsVersion{2, 10, 22}),
              AllOf(HasSubstr("nats-server 2.10.22 (/usr/bin/nats-server); before 2.10.23, "),
                    HasSubstr("power cut")));
  EXPECT_EQ(describe_nats("/usr/bin/nats-server", NatsVersion{2, 10, 23}),
            "nats-server 2.10.23 (/usr/bin/nats-server)");
  EXPECT_THAT(describe_nats("/usr/bin/nats-server", std::nullopt), HasSubstr("unknown version"));
}

// A program in PATH that says that it is of a version, and does nothing else.
class OldServer : public testing::Test {
 protected:
  OldServer() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~OldServer() override { fs::remove_all(folder_); }

  std::string why_refused(const std::string& version) const {
    const fs::path program = folder_ / "nats-server";
    write_file(program, "#!/bin/sh\necho nats-server: v" + version + "\n");
    fs::permissions(program, fs::perms::owner_all);
    const std::string path = getenv("PATH");
    setenv("PATH", (folder_.string() + ":" + path).c_str(), 1);
    std::string why = "it is not refused";
    try {
      const NatsServer server(
          {.host = "127.0.0.1", .folder = folder_ / "server", .run = "run", .streams = {}}, {}, 30);
    } catch (const UsageError& error) {
      why = error.what();
    } catch (const Error&) {  // it is started, and ends at once
    }
    setenv("PATH", path.c_str(), 1);
    return why;
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "nats_version_test";
};

TEST_F(OldServer, IsRefusedBeforeItTouchesTheStore) {
  EXPECT_EQ(why_refused("2.8.4"), "nats-server 2.8.4 (" + (folder_ / "nats-server").string() +
                                      ") may lose stored messages after a kill or a power cut; it "
                                      "has to be 2.9.0 or later, better "
                                      "2.10.23: install that, or put the program beside thinwire");
  EXPECT_FALSE(fs::exists(folder_ / "server"));
}

TEST_F(OldServer, IsUsedFromTheOldestVersionOn) {
  EXPECT_EQ(why_refused("2.9.0"), "it is not refused");
  EXPECT_TRUE(fs::exists(folder_ / "server"));
}

}  // namespace
}  // namespace thinwire::transport
