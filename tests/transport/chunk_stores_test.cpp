#include <fmt/format.h>
#include <gmock/gmock.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "thinwire/base/bytes.h"
#include "thinwire/base/json.h"
#include "thinwire/transport/nats/nats_requests.h"

namespace thinwire::transport {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class ChunkStoresTest : public testing::Test {
 protected:
  struct Asked {
    std::string subject;
    json request;
    NatsRequests::Answer answer;
  };

  // Answers the oldest request that is not answered yet, and returns it.
  Asked answer(std::string_view text) {
    Asked asked = std::move(asked_.front());
    asked_.pop_front();
    const auto bytes = as_bytes(text);
    asked.answer(NatsMessage{0, "", {bytes.begin(), bytes.end()}, {}, {}, {}});
    return asked;
  }
  static std::string info_at(const std::string& site) {
    return fmt::format(R"({{"config":{{"placement":{{"tags":["{}"]}}}},"state":{{}}}})", site);
  }
  Courier::Done placed() {
    return [this](const Result<void>& result) { refusal_ = result ? "" : result.error().message; };
  }

  const NatsSubjects subjects_{"run", true};
  std::deque<Asked> asked_;
  std::optional<std::string> refusal_;  // the answer to place; empty: it was done
  ChunkStores stores_{subjects_, [this](const std::string& subject, const std::string& request,
                                        NatsRequests::Answer answer) {
                        asked_.push_back({subject, try_parse_json<json>(request), answer});
                      }};
};

TEST_F(ChunkStoresTest, AHoldersStoreIsPlacedAtItsSite) {
  stores_.place("me", "a.example", placed());
  EXPECT_FALSE(refusal_);
  const Asked asked = answer(R"({"config":{}})");
  EXPECT_EQ(refusal_, "");
  EXPECT_EQ(asked.subject, "$JS.API.STREAM.CREATE.run-blobs-me");
  EXPECT_EQ(asked.request["name"], "run-blobs-me");
  EXPECT_EQ(asked.request["subjects"], json::array({"run.blob.me.*.*"}));
  EXPECT_EQ(asked.request["num_replicas"], 1);
  EXPECT_EQ(asked.request["placement"]["tags"], json::array({"a.example"}));
  EXPECT_EQ(asked.request["max_msgs_per_subject"], 1);
}

TEST_F(ChunkStoresTest, AStoreThatExistsIsLeftWhereItIs) {
  stores_.place("me", "a", placed());
  answer(R"({"error":{"err_code":10058}})");
  EXPECT_FALSE(refusal_);
  EXPECT_EQ(answer(info_at("a")).subject, "$JS.API.STREAM.INFO.run-blobs-me");
  EXPECT_EQ(refusal_, "");

  stores_.place("me", "b", placed());
  answer(R"({"error":{"err_code":10058}})");
  answer(info_at("a"));
  EXPECT_THAT(*refusal_, HasSubstr("kept at the site \"a\", not at b"));
}

TEST_F(ChunkStoresTest, WhoeverMovedFromASiteThatIsDownIsToldSo) {
  stores_.place("me", "b", placed());
  answer(R"({"error":{"err_code":10058}})");
  asked_.front().answer(fail(FailureKind::kDeadline, "the server did not answer in 30 s"));
  EXPECT_THAT(*refusal_, HasSubstr("kept at another site, whose server does not answer"));
  EXPECT_THAT(*refusal_, HasSubstr("join at b with a new run.dir"));
}

TEST_F(ChunkStoresTest, ASiteWithoutAServerIsNamed) {
  stores_.place("me", "nowhere", placed());
  answer(R"({"error":{"err_code":10005,"description":"no suitable peers for placement"}})");
  EXPECT_THAT(*refusal_, HasSubstr("the site nowhere"));
}

TEST_F(ChunkStoresTest, NamesThatAreNoSitesAreRefusedAndNotSent) {
  for (const std::string& site : {std::string(), std::string("a b"), std::string("\x1b[31m"),
                                  std::string("\xff"), std::string(256, 'a')}) {
    refusal_.reset();
    stores_.place("me", site, placed());
    ASSERT_TRUE(refusal_) << site;
    EXPECT_THAT(*refusal_, HasSubstr("a site is 1 to 255 of"));
    EXPECT_EQ(refusal_->find('\x1b'), std::string::npos);
  }
  EXPECT_TRUE(asked_.empty());
}

TEST_F(ChunkStoresTest, WhatSitesHoldIsCountedOverAllStores) {
  Result<uint64_t> chunks = 0;
  stores_.count([&](Result<uint64_t> counted) { chunks = std::move(counted); });
  const Asked first =
      answer(R"({"total":3,"streams":[{"state":{"messages":4}},{"state":{"messages":5}}]})");
  EXPECT_EQ(first.subject, "$JS.API.STREAM.LIST");
  EXPECT_EQ(first.request, json::parse(R"({"subject":"run.blob.*.*.*","offset":0})"));
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(answer(R"({"total":3,"streams":[{"state":{"messages":6}}]})").request["offset"], 2);
  EXPECT_EQ(chunks.value(), 15u);

  for (const char* text : {R"({"total":3})", R"({"total":3,"streams":[]})"}) {
    stores_.count([&](Result<uint64_t> counted) { chunks = std::move(counted); });
    answer(text);
    EXPECT_EQ(chunks.value(), 0u) << "and it does not ask for ever";
  }
  for (const char* text : {"", "{}", R"({"total":1,"streams":[{}]})",
                           R"({"total":1,"streams":[7]})", R"({"error":{"err_code":10059}})"}) {
    stores_.count([&](Result<uint64_t> counted) { chunks = std::move(counted); });
    answer(text);
    EXPECT_FALSE(chunks) << text;
  }
}

TEST_F(ChunkStoresTest, ChunksAreListedAndDroppedInTheirHoldersStore) {
  const Sha256 name = sha256({});
  std::vector<StoredBlob> blobs;
  stores_.list("me", [&](Result<std::vector<StoredBlob>> listed) { blobs = listed.value(); });
  const std::string of_blob = "run.blob.me." + to_hex(name) + ".";
  EXPECT_EQ(answer(fmt::format(R"({{"state":{{"subjects":{{"{0}0":1,"{0}{1}":1,"{0}x":1}}}}}})",
                               of_blob, std::string(64, 'a')))
                .subject,
            "$JS.API.STREAM.INFO.run-blobs-me");
  EXPECT_THAT(blobs, ElementsAre(StoredBlob{name, 2}));
  bool dropped = false;
  stores_.drop(name, "me", [&](const Result<void>& done) { dropped = done.has_value(); });
  const Asked asked = answer(R"({"success":true,"purged":1})");
  EXPECT_EQ(asked.subject, "$JS.API.STREAM.PURGE.run-blobs-me");
  EXPECT_EQ(asked.request["filter"], of_blob + "*");
  EXPECT_TRUE(dropped);
}

TEST(ChunkStores, WithoutSitesThereIsOneStore) {
  const NatsSubjects subjects("run");
  std::vector<std::string> asked;
  ChunkStores stores(subjects, [&](const std::string& subject, const std::string&,
                                   const NatsRequests::Answer&) { asked.push_back(subject); });
  stores.count([](const auto&) {});
  stores.list("me", [](const auto&) {});
  stores.drop(sha256({}), "me", [](const auto&) {});
  EXPECT_THAT(asked, ElementsAre("$JS.API.STREAM.INFO.run-blobs", "$JS.API.STREAM.INFO.run-blobs",
                                 "$JS.API.STREAM.PURGE.run-blobs"));
  bool refused = false;
  stores.place("me", "a", [&](const Result<void>& done) { refused = !done; });
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace thinwire::transport
