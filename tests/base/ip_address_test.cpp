#include "thinwire/base/ip_address.h"

#include <gtest/gtest.h>

namespace thinwire {
namespace {

TEST(IpAddress, IsAddressOfEitherVersion) {
  for (const char* address : {"192.0.2.1", "127.0.0.1", "::1", "2001:db8::1", "::ffff:192.0.2.1"}) {
    EXPECT_TRUE(is_ip_address(address)) << address;
  }
}

TEST(IpAddress, IsNotNameOrPartOfAddress) {
  for (const char* name :
       {"", "localhost", "192.0.2", "192.0.2.256", "192.0.2.1:80", "[::1]", "a.192.0.2.1", "::g"}) {
    EXPECT_FALSE(is_ip_address(name)) << name;
  }
}

}  // namespace
}  // namespace thinwire
