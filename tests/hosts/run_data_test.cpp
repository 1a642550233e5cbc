#include "thinwire/hosts/run_data.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>

#include "../tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/data/shard.h"

namespace thinwire::hosts {
namespace {

using testing::HasSubstr;

// A prepared folder, its description, and its files as a coordinator would hand them out.
class RunData : public testing::Test {
 protected:
  RunData() : folder_(test_folder()), tokens_(prepare_tiny_corpus(folder_)) {
    const auto vocabulary = data::Vocabulary::load(tokens_);
    description_.vocabulary = describe_vocabulary(*vocabulary);
    description_.sets = describe_sets(data::open_sets(tokens_, vocabulary->digest()));
    for (const DataFile& one : data_files(description_)) {
      const std::string text = read_text_file(tokens_ / one.file);
      blobs_.emplace(one.blob, Bytes(text.begin(), text.end()));
    }
  }

  // Receives all files, or fails after the first `until` of them.
  void receive(size_t until = 1000) {
    fetched_.clear();
    Reception reception;
    reception.fetch = [&](const transport::BlobId& blob) {
      if (fetched_.size() == until) throw Error("disconnected");
      fetched_.insert(blob);
      return blobs_.at(blob);
    };
    receive_data(received(), description_, reception);
  }
  fs::path received() const { return folder_ / "received"; }

  const fs::path folder_;
  const fs::path tokens_;
  RunDescription description_;
  std::map<transport::BlobId, Bytes> blobs_;
  std::set<transport::BlobId> fetched_;
};

TEST_F(RunData, TheFolderThatWasDescribedHoldsIt) {
  EXPECT_EQ(differs_from(tokens_, description_), "");
  EXPECT_EQ(differs_from(received(), description_), "does not exist");
}

TEST_F(RunData, WhatIsReceivedHoldsTheSameTokens) {
  receive();
  EXPECT_EQ(differs_from(received(), description_), "");
  EXPECT_EQ(fetched_.size(), blobs_.size());
}

TEST_F(RunData, AnInterruptedReceptionGoesOn) {
  EXPECT_THROW(receive(2), Error);
  EXPECT_NE(differs_from(received(), description_), "");
  receive();
  EXPECT_EQ(fetched_.size(), blobs_.size() - 2);
  EXPECT_EQ(differs_from(received(), description_), "");
}

TEST_F(RunData, ADamagedFileIsReceivedAgain) {
  receive();
  const fs::path file = received() / data_files(description_).back().file;
  std::string text = read_text_file(file);
  text.back() ^= 1;
  write_file(file, text);
  EXPECT_THAT(differs_from(received(), description_), HasSubstr("altered"));
  receive();
  EXPECT_EQ(fetched_.size(), 1u);
  EXPECT_EQ(differs_from(received(), description_), "");
}

TEST_F(RunData, OtherTokensAreNoticed) {
  description_.sets.back().digest ^= 1;
  EXPECT_THAT(differs_from(tokens_, description_), HasSubstr("has different tokens in its set"));
  description_.sets.pop_back();
  EXPECT_EQ(differs_from(tokens_, description_), "has sets that the run does not have");
  description_.vocabulary->digest ^= 1;
  EXPECT_EQ(differs_from(tokens_, description_), "has a different vocabulary");
}

}  // namespace
}  // namespace thinwire::hosts
