#include "thinwire/transport/relay/relay_traffic.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace thinwire::transport {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kMissing = "NATS/1.0 404 Message Not Found\r\n\r\n";
constexpr const char* kStored = R"({"stream":"run-blobs","seq":7})";

std::string name_of(std::string_view chunk) { return to_hex(sha256(as_bytes(chunk))); }

// Clients 1, 2 and 3 of a relay, each with an inbox: "in1.*" is subscription "9" of client 1.
class RelayTrafficTest : public testing::Test, protected RelayWire {
 protected:
  explicit RelayTrafficTest(uint64_t cache_bytes = 1000) : traffic_(*this, "run", cache_bytes) {
    for (uint64_t client : {1, 2, 3}) {
      traffic_.open(client);
      client_says(client, fmt::format("SUB in{}.* 9\r\n", client));
    }
    to_servers_.clear();
  }

  void to_client(uint64_t client, std::span<const uint8_t> bytes) override {
    to_clients_.push_back(fmt::format("{}: {}", client, text_of(bytes)));
  }
  void to_server(uint64_t client, std::span<const uint8_t> bytes) override {
    to_servers_.push_back(fmt::format("{}: {}", client, text_of(bytes)));
  }
  static std::string_view text_of(std::span<const uint8_t> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static NatsFrame frame_of(const std::string& text) {
    NatsFrameReader reader;
    reader.add(as_bytes(text));
    const auto frame = reader.next();
    EXPECT_TRUE(frame && *frame) << text;
    return **frame;
  }
  void client_says(uint64_t client, const std::string& text) {
    traffic_.from_client(client, frame_of(text));
  }
  void server_says(uint64_t client, const std::string& text) {
    traffic_.from_server(client, frame_of(text));
  }

  static std::string request(std::string_view chunk, const std::string& reply,
                             const std::string& holder = "holder") {
    return fmt::format("PUB $JS.API.DIRECT.GET.run-blobs.run.blob.{}.{}.0 {} 0\r\n\r\n", holder,
                       name_of(chunk), reply);
  }
  void ask(uint64_t client, std::string_view chunk, int number = 1) {
    client_says(client, request(chunk, fmt::format("in{}.{}", client, number)));
  }
  void give(uint64_t client, std::string_view body, int number = 1,
            const std::string& headers = "NATS/1.0\r\nNats-Stream: run-blobs\r\n\r\n") {
    server_says(client, fmt::format("HMSG in{}.{} 9 {} {}\r\n{}{}\r\n", client, number,
                                    headers.size(), headers.size() + body.size(), headers, body));
  }
  // The server has answered each of them a request for a chunk.
  void admit(std::initializer_list<uint64_t> clients) {
    for (const uint64_t client : clients) {
      ask(client, "another chunk", 100);
      give(client, "", 100, kMissing);
    }
    to_clients_.clear();
    to_servers_.clear();
  }

  std::vector<std::string> to_clients_;
  std::vector<std::string> to_servers_;
  RelayTraffic traffic_;
};

TEST_F(RelayTrafficTest, PassesOnWhatIsNotAboutChunks) {
  const std::string said = "PUB run.say.me.offer 2\r\nhi\r\n";
  client_says(1, said);
  client_says(1, "PING\r\n");
  server_says(1, "MSG run.say.you.offer 9 2\r\nho\r\n");
  server_says(1, "-ERR 'Permissions Violation'\r\n");
  EXPECT_THAT(to_servers_, ElementsAre("1: " + said, "1: PING\r\n"));
  EXPECT_THAT(to_clients_, ElementsAre("1: MSG run.say.you.offer 9 2\r\nho\r\n",
                                       "1: -ERR 'Permissions Violation'\r\n"));
}

TEST_F(RelayTrafficTest, AChunkThatOneHasFetchedComesFromHereForOthers) {
  admit({1, 2});
  ask(1, "chunk");
  give(1, "chunk");
  to_servers_.clear();
  to_clients_.clear();
  client_says(2, request("chunk", "in2.5", "another_holder"));
  EXPECT_THAT(to_servers_, IsEmpty());
  EXPECT_THAT(
      to_clients_,
      ElementsAre("2: HMSG in2.5 9 36 41\r\nNATS/1.0\r\nNats-Stream: run-blobs\r\n\r\nchunk\r\n"));
  EXPECT_EQ(traffic_.shared_chunks(), 1u);
  EXPECT_EQ(traffic_.shared_bytes(), 5u);
}

TEST_F(RelayTrafficTest, AChunkOfALongerBlobIsKnownByItsOwnName) {
  admit({1, 2});
  const auto of_blob = [](std::string_view blob, int client) {
    return fmt::format("PUB $JS.API.DIRECT.GET.run-blobs.run.blob.holder.{}.{} in{}.5 0\r\n\r\n",
                       name_of(blob), name_of("chunk"), client);
  };
  client_says(1, of_blob("long", 1));
  give(1, "chunk", 5);
  to_servers_.clear();
  client_says(2, of_blob("another", 2));
  EXPECT_THAT(to_servers_, IsEmpty());
  EXPECT_EQ(traffic_.shared_bytes(), 5u);
}

TEST_F(RelayTrafficTest, WhereServersAreSitesEachHolderHasAStore) {
  admit({1, 2});
  const auto of_holder = [&](int client) {
    return fmt::format(
        "PUB $JS.API.DIRECT.GET.run-blobs-holder.run.blob.holder.{}.0 in{}.5 0\r\n\r\n",
        name_of("chunk"), client);
  };
  client_says(1, of_holder(1));
  give(1, "chunk", 5);
  to_servers_.clear();
  client_says(2, of_holder(2));
  EXPECT_THAT(to_servers_, IsEmpty());
  EXPECT_EQ(traffic_.shared_chunks(), 1u);
}

TEST_F(RelayTrafficTest, OthersWaitForAChunkThatIsOnItsWay) {
  admit({1, 2, 3});
  ask(1, "chunk");
  ask(2, "chunk");
  ask(3, "chunk");
  EXPECT_THAT(to_servers_, ElementsAre("1: " + request("chunk", "in1.1")));
  give(1, "chunk");
  EXPECT_THAT(to_clients_, ElementsAre(HasSubstr("1: HMSG in1.1"), HasSubstr("2: HMSG in2.1"),
                                       HasSubstr("3: HMSG in3.1")));
}

TEST_F(RelayTrafficTest, WhoeverAsksAgainAsksTheServer) {
  admit({1, 2});
  ask(1, "chunk");
  ask(2, "chunk", 1);
  ask(2, "chunk", 2);
  EXPECT_THAT(to_servers_,
              ElementsAre("1: " + request("chunk", "in1.1"), "2: " + request("chunk", "in2.2")));
  give(2, "chunk", 2);  // which also answers the first request
  EXPECT_THAT(to_clients_, ElementsAre(HasSubstr("2: HMSG in2.2"), HasSubstr("2: HMSG in2.1")));
}

TEST_F(RelayTrafficTest, OthersAskTheServerForWhatItDoesNotHave) {
  admit({1, 2});
  ask(1, "chunk");
  ask(2, "chunk");
  give(1, "", 1, kMissing);
  EXPECT_THAT(to_servers_,
              ElementsAre("1: " + request("chunk", "in1.1"), "2: " + request("chunk", "in2.1")));
  give(2, "chunk");
  EXPECT_THAT(to_clients_, ElementsAre(HasSubstr("404"), HasSubstr("2: HMSG in2.1")));
}

TEST_F(RelayTrafficTest, OthersAskTheServerWhenTheFirstIsGone) {
  admit({1, 2, 3});
  ask(1, "chunk");
  ask(2, "chunk");
  ask(3, "chunk");
  to_servers_.clear();
  traffic_.close(1);
  EXPECT_THAT(to_servers_, ElementsAre("2: " + request("chunk", "in2.1")));
  traffic_.close(2);
  EXPECT_THAT(to_servers_,
              ElementsAre("2: " + request("chunk", "in2.1"), "3: " + request("chunk", "in3.1")));
  give(3, "chunk");
  EXPECT_THAT(to_clients_, ElementsAre(HasSubstr("3: HMSG in3.1")));
}

TEST_F(RelayTrafficTest, AnAlteredChunkIsNotKept) {
  admit({1, 2});
  ask(1, "chunk");
  ask(2, "chunk");
  give(1, "chump");
  ask(3, "chunk");
  EXPECT_THAT(to_servers_,
              ElementsAre("1: " + request("chunk", "in1.1"), "2: " + request("chunk", "in2.1"),
                          "3: " + request("chunk", "in3.1")));
}

TEST_F(RelayTrafficTest, WhomTheServerHasNotAnsweredGetsNothingFromHere) {
  admit({1});
  ask(1, "chunk");
  ask(2, "chunk", 1);
  give(1, "chunk");
  ask(2, "chunk", 2);
  EXPECT_THAT(to_servers_,
              ElementsAre("1: " + request("chunk", "in1.1"), "2: " + request("chunk", "in2.1"),
                          "2: " + request("chunk", "in2.2")));
  server_says(2, "-ERR 'Permissions Violation for Publish'\r\n");
  ask(2, "chunk", 3);
  EXPECT_THAT(to_servers_.back(), "2: " + request("chunk", "in2.3"));
  EXPECT_THAT(to_clients_, testing::Each(Not(HasSubstr("2: HMSG"))));
}

TEST_F(RelayTrafficTest, WhatAClientStoresIsForOthersOnceTheServerHasIt) {
  admit({2});
  const std::string stored =
      fmt::format("PUB run.blob.me.{}.0 in1.3 5\r\nchunk\r\n", name_of("chunk"));
  client_says(1, stored);
  ask(2, "chunk", 1);
  EXPECT_THAT(to_servers_, ElementsAre("1: " + stored, "2: " + request("chunk", "in2.1")));
  give(2, "", 1, kMissing);
  to_clients_.clear();
  server_says(1,
              fmt::format("MSG in1.3 9 {}\r\n{}\r\n", std::string_view(kStored).size(), kStored));
  ask(2, "chunk", 2);
  EXPECT_EQ(to_servers_.size(), 2u);
  EXPECT_THAT(to_clients_, ElementsAre(HasSubstr("MSG in1.3"), HasSubstr("2: HMSG in2.2")));
}

TEST_F(RelayTrafficTest, WhatTheServerRefusedOrIsNotWhatItsNameSaysIsNotKept) {
  admit({2});
  const std::string refused = R"({"error":{"code":400,"err_code":10047,"description":"no space"}})";
  client_says(1, fmt::format("PUB run.blob.me.{}.0 in1.3 5\r\nchunk\r\n", name_of("chunk")));
  server_says(1, fmt::format("MSG in1.3 9 {}\r\n{}\r\n", refused.size(), refused));
  client_says(1, fmt::format("PUB run.blob.me.{}.0 in1.4 5\r\nother\r\n", name_of("chunk")));
  server_says(1,
              fmt::format("MSG in1.4 9 {}\r\n{}\r\n", std::string_view(kStored).size(), kStored));
  ask(2, "chunk");
  EXPECT_EQ(to_servers_.back(), "2: " + request("chunk", "in2.1"));
}

TEST_F(RelayTrafficTest, AClientThatCouldNotReceiveTheAnswerAsksTheServer) {
  admit({1, 2});
  ask(1, "chunk");
  give(1, "chunk");
  client_says(2, "UNSUB 9\r\n");
  ask(2, "chunk");
  EXPECT_EQ(to_servers_.back(), "2: " + request("chunk", "in2.1"));
}

TEST_F(RelayTrafficTest, TheGreetingNamesNoOtherServers) {
  server_says(1, R"(INFO {"nonce":"n","tls_required":true,"connect_urls":["a:1"]})"
                 "\r\n");
  EXPECT_THAT(to_clients_, ElementsAre("1: INFO {\"nonce\":\"n\",\"tls_required\":true}\r\n"));
}

TEST(ChunkCache, KeepsWhatWasUsedLast) {
  ChunkCache cache(10);
  const auto chunk = [](char letter) { return std::make_shared<const Bytes>(4, letter); };
  const auto name = [](char letter) { return sha256(Bytes(1, static_cast<uint8_t>(letter))); };
  cache.add(name('a'), chunk('a'));
  cache.add(name('b'), chunk('b'));
  cache.add(name('a'), chunk('a'));  // again: no change
  EXPECT_EQ(cache.bytes(), 8u);
  EXPECT_NE(cache.find(name('a')), nullptr);
  cache.add(name('c'), chunk('c'));
  EXPECT_EQ(cache.find(name('b')), nullptr);
  ASSERT_NE(cache.find(name('a')), nullptr);
  EXPECT_EQ(*cache.find(name('c')), Bytes(4, 'c'));
  cache.add(name('d'), std::make_shared<const Bytes>(11));
  EXPECT_EQ(cache.find(name('d')), nullptr);
  EXPECT_EQ(cache.bytes(), 8u);
}

}  // namespace
}  // namespace thinwire::transport
