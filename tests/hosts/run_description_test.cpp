#include "thinwire/hosts/run_description.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>

#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/hosts/requests.h"

namespace thinwire::hosts {
namespace {

using testing::HasSubstr;

RunDescription sample() {
  const auto blob = [](std::string_view text) { return transport::blob_id(as_bytes(text)); };
  RunDescription description;
  description.numerics = checkpoint::kNumericsVersion;
  description.recipe = "[train]\nsteps = 3\n";
  description.founding = {0x1234,
                          sha256(as_bytes(description.recipe)),
                          blob("weights").name,
                          7,
                          {make_signer(make_seed())->key()}};
  description.vocabulary = DescribedVocabulary{"vocabulary.json", 258, 5, blob("vocabulary")};
  description.sets = {{"train", 6, 10, 100, 400, {{blob("one"), 1}, {blob("two"), 2}}},
                      {"validation", 7, 1, 10, 40, {{blob("three"), 3}}}};
  return description;
}

// What reading says of a description with `from` replaced by `to`.
std::string refusal(const std::string& from, const std::string& to) {
  const Bytes bytes = encode_description(sample());
  std::string text(bytes.begin(), bytes.end());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const auto read = decode_description(as_bytes(text));
  return read ? "" : read.error().message;
}

TEST(RunDescription, IsReadAsItWasWritten) {
  const RunDescription description = sample();
  const auto read = decode_description(encode_description(description));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, description);
  EXPECT_EQ(read->data_bytes(), 11u);
}

TEST(RunDescription, HasNoTrainingSetWhereMembersHaveTheirOwn) {
  RunDescription description = sample();
  description.own = true;
  EXPECT_FALSE(decode_description(encode_description(description)));
  description.sets.erase(description.sets.begin());
  const auto read = decode_description(encode_description(description));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, description);
  description.own = false;
  EXPECT_FALSE(decode_description(encode_description(description)));
}

TEST(RunDescription, NamesTheFilesOfTheModelWhereThereAreSome) {
  RunDescription description = sample();
  description.model_files = transport::blob_id(as_bytes("{}"));
  const auto read = decode_description(encode_description(description));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, description);
  EXPECT_NE(read->model_files, sample().model_files);
}

TEST(RunDescription, NamesTheBaseOfAnAdapterWhereThereIsOne) {
  RunDescription description = sample();
  const auto part = [](std::string_view text) { return transport::blob_id(as_bytes(text)); };
  description.base = {9, {{"config.json", {part("{}")}}, {"weights", {part("a"), part("bc")}}}};
  const Bytes bytes = encode_description(description);
  const auto read = decode_description(bytes);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, description);
  EXPECT_EQ(read->base->bytes(), 5u);
  const auto refused = [&](const std::string& name) {
    std::string text(bytes.begin(), bytes.end());
    text.replace(text.find("config.json"), std::string("config.json").size(), name);
    const auto other = decode_description(as_bytes(text));
    return other ? "" : other.error().message;
  };
  EXPECT_THAT(refused("../config.json"), HasSubstr("a file whose name is a path"));
  EXPECT_THAT(refused(".."), HasSubstr("a file whose name is a path"));
  EXPECT_THAT(refused("weights"), HasSubstr("a file twice"));
}

TEST(RunDescription, NamesTheFilesOfTasksInTheirFolders) {
  RunDescription description = sample();
  const transport::BlobId part = transport::blob_id(as_bytes(std::string_view("a")));
  description.tasks = {0, {{"words.toml", {part}}, {"data/arc/dev.jsonl", {part}}}};
  const Bytes bytes = encode_description(description);
  const auto read = decode_description(bytes);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, description);
  for (const std::string name : {"data/../../dev.jsonl", "/arc/dev.jsonl", "data//dev.jsonl",
                                 "data/arc/", "./dev.jsonl", "data/arc/.."}) {
    std::string text(bytes.begin(), bytes.end());
    text.replace(text.find("data/arc/dev.jsonl"), std::string("data/arc/dev.jsonl").size(), name);
    const auto other = decode_description(as_bytes(text));
    EXPECT_THAT(other ? "" : other.error().message, HasSubstr("a file whose name is a path"))
        << name;
  }
}

TEST(RunDescription, AnExternalModelHasNoTexts) {
  RunDescription description = sample();
  description.vocabulary.reset();
  description.sets.clear();
  const Bytes bytes = encode_description(description);
  const auto read = decode_description(bytes);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, description);
  EXPECT_EQ(read->data_bytes(), 0u);
  EXPECT_THAT(refusal("\"vocabulary\"", "\"another\""), HasSubstr("sets without a vocabulary"));
}

TEST(RunDescription, ABaseIsOfFilesInPartsOfBoundedSize) {
  const auto refusal_of = [](std::vector<DescribedFile> files) {
    RunDescription description = sample();
    description.base = {9, std::move(files)};
    const auto read = decode_description(encode_description(description));
    return read ? "" : read.error().message;
  };
  const auto part = [](uint64_t bytes) { return transport::BlobId{sha256({}), bytes}; };
  EXPECT_EQ(refusal_of({{"weights", {part(kMaxPartBytes), part(1)}}, {"empty", {part(0)}}}), "");
  EXPECT_THAT(refusal_of({{"weights", {part(kMaxPartBytes + 1)}}}), HasSubstr("too large"));
  EXPECT_THAT(refusal_of({{"weights", {part(1), part(UINT64_MAX)}}}), HasSubstr("too large"));
  EXPECT_THAT(refusal_of({{"weights", {part(1), part(0)}}}), HasSubstr("without bytes"));
  EXPECT_THAT(refusal_of({{"weights", {}}}), HasSubstr("without parts"));
  EXPECT_THAT(refusal_of({}), HasSubstr("without files"));
}

TEST(RunDescription, OtherVersionsAreNamed) {
  EXPECT_THAT(refusal(fmt::format("\"protocol\": {}", kProtocolVersion), "\"protocol\": 9"),
              HasSubstr("protocol version 9"));
  EXPECT_THAT(
      refusal(fmt::format("\"numerics\": {}", checkpoint::kNumericsVersion), "\"numerics\": 99"),
      HasSubstr("numerics version 99"));
}

TEST(RunDescription, NamesCannotLeaveTheFolder) {
  EXPECT_THAT(refusal("\"validation\"", "\"../../x\""), HasSubstr("invalid name"));
  EXPECT_THAT(refusal("vocabulary.json", "../x"), HasSubstr("vocabulary of an unknown kind"));
}

TEST(RunDescription, WhatIsNoDescriptionIsRefused) {
  for (const std::string text :
       {"", "{", "[]", "{\"format\": 1}", "{\"format\": \"thinwire-run\"}"}) {
    EXPECT_FALSE(decode_description(as_bytes(text))) << text;
  }
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_NE(refusal("\"sets\": [", "\"sets\": [" + deep + ","), "");
  EXPECT_NE(refusal("\"sets\": [", "\"sets\": [1,"), "");
  EXPECT_NE(refusal("\"train\"", "\"other\""), "");
}

TEST(RunDescription, TheEntryPointIsTheFoundersOwn) {
  const auto founder = make_signer(make_seed());
  const auto another = make_signer(make_seed());
  const transport::BlobId id = transport::blob_id(as_bytes("description"));
  const Bytes entry = encode_entry(id, *founder);
  EXPECT_EQ(decode_entry(entry, founder->key()).value_or(transport::BlobId{}), id);
  EXPECT_FALSE(decode_entry(entry, another->key()));
  for (size_t i = 0; i < entry.size(); ++i) {
    Bytes changed = entry;
    changed[i] ^= 0x40;
    EXPECT_FALSE(decode_entry(changed, founder->key())) << i;
    EXPECT_FALSE(decode_entry(std::span(entry).first(i), founder->key())) << i;
  }
}

}  // namespace
}  // namespace thinwire::hosts
