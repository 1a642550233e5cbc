#include "thinwire/base/local_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "tests/errors.h"
#include "thinwire/base/error.h"

namespace thinwire {
namespace {

std::array<int, 2> pair() {
  std::array<int, 2> ends;
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  return ends;
}

TEST(LineSocket, CarriesLinesOfAnyLengthInTheirOrder) {
  const std::array<int, 2> ends = pair();
  LineSocket one(ends[0], "it"), other(ends[1], "it");
  const std::string long_line(3'000'000, 'x');  // more than a socket holds
  std::thread sender([&] {
    one.send("first");
    one.send(long_line);
    one.send("");
  });
  EXPECT_EQ(other.receive(), "first");
  EXPECT_EQ(other.receive(), long_line);
  EXPECT_EQ(other.receive(), "");
  sender.join();
  EXPECT_FALSE(other.wait(0));
}

TEST(LineSocket, EndsWithItsPeer) {
  const std::array<int, 2> ends = pair();
  LineSocket one(ends[0], "it");
  {
    LineSocket other(ends[1], "it");
    other.send("last");
  }
  EXPECT_EQ(one.receive(), "last");
  EXPECT_EQ(one.receive(), std::nullopt);
  one.send("to nobody");
}

TEST(LineSocket, HandsOverMemory) {
  const std::array<int, 2> ends = pair();
  LineSocket one(ends[0], "it");
  const SharedMemory memory(100);
  memory.bytes()[99] = std::byte{7};
  const std::array files = {memory.file()};
  one.send("memory", files);

  std::array<char, 16> text;
  iovec data = {text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  EXPECT_EQ(recvmsg(ends[1], &message, 0), 7);
  int file = -1;
  std::memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
  const auto* same =
      static_cast<const std::byte*>(mmap(nullptr, 100, PROT_READ, MAP_SHARED, file, 0));
  ASSERT_NE(same, MAP_FAILED);
  EXPECT_EQ(same[99], std::byte{7});
  memory.bytes()[0] = std::byte{8};
  EXPECT_EQ(same[0], std::byte{8});
  munmap(const_cast<std::byte*>(same), 100);
  close(file);
  close(ends[1]);
}

TEST(LineSocket, IsNoOtherFile) {
  std::array<int, 2> ends;
  const int elsewhere = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_NE(tests::error_of([&] { LineSocket(elsewhere, "--model-socket"); }), tests::kNoError);
  close(elsewhere);
  ASSERT_EQ(pipe(ends.data()), 0);
  EXPECT_THAT(tests::error_of([&] { LineSocket(ends[0], "--model-socket"); }),
              testing::HasSubstr("--model-socket must be the number of an inherited, connected"));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace thinwire
