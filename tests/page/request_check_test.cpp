#include <gtest/gtest.h>

#include "thinwire/page/page_server.h"

namespace thinwire::page {
namespace {

TEST(RequestCheck, TakesAddressesAndOwnNames) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080",
        "192.168.1.7:80", "attic", "Attic:8080", "attic.local", "runs.example.org"}) {
    EXPECT_TRUE(is_own_host(host, "runs.example.org", "attic")) << host;
  }
}

TEST(RequestCheck, RefusesNamesThatAnotherSiteMayHaveMade) {
  for (const char* host :
       {"", ":8080", "example.com", "example.com:8080", "127.0.0.1.example.com",
        "attic.example.com", "localhost.example.com", "[::1", "[example.com]", "0x7f000001"}) {
    EXPECT_FALSE(is_own_host(host, "0.0.0.0", "attic")) << host;
  }
  EXPECT_FALSE(is_own_host(".local", "127.0.0.1", "")) << "a machine without a name";
}

}  // namespace
}  // namespace thinwire::page
