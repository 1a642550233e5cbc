#include "thinwire/checkpoint/folder_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "tests/errors.h"
#include "tests/paths.h"

namespace thinwire::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FolderClaims : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }

  // What a command leaves there.
  void keep(FolderOwner owner) {
    fs::remove_all(folder_);
    for (const char* sub : {"server", "member", "checkpoints"}) {
      const bool is_own = (owner == FolderOwner::kServe && sub == std::string("server")) ||
                          (owner == FolderOwner::kJoin && sub != std::string("server"));
      if (is_own) fs::create_directories(folder_ / sub);
    }
    fs::create_directories(folder_);
    const char* file = owner == FolderOwner::kRelay ? "authority.key" : "recipe.toml";
    write_file(folder_ / file, "");
  }
  std::string error(FolderOwner owner) const {
    return tests::error_of([&] { const FolderClaim claim(folder_, owner); });
  }

  const fs::path folder_ = tests::memory_folder() / "run";
  const std::array<std::pair<FolderOwner, const char*>, 4> owners_ = {
      {{FolderOwner::kTrain, "`thinwire train`"},
       {FolderOwner::kServe, "`thinwire serve`"},
       {FolderOwner::kJoin, "`thinwire join`"},
       {FolderOwner::kRelay, "`thinwire relay`"}}};
};

TEST_F(FolderClaims, AFileIsNamedAsSuch) {
  write_file(folder_, "x");
  EXPECT_EQ(error(FolderOwner::kTrain),
            "[run] dir " + folder_.string() + " is a file, not a folder");
  EXPECT_EQ(error(FolderOwner::kRelay), "--dir " + folder_.string() + " is a file, not a folder");
}

TEST_F(FolderClaims, TheRunsInAFolderAreNamedTheNewestFirst) {
  keep(FolderOwner::kServe);
  const fs::path all = folder_.parent_path() / "all";
  fs::remove_all(all);
  const fs::file_time_type now = fs::file_time_type::clock::now();
  for (int age = 0; age < 7; ++age) {
    const fs::path run = all / std::to_string(age);
    fs::create_directories(run / "checkpoints");
    fs::last_write_time(run, now - std::chrono::hours(age));
  }
  fs::copy(folder_, all / "served", fs::copy_options::recursive);
  fs::create_directory(all / "else");
  const std::string at = all.string();
  EXPECT_EQ(runs_within(all, {FolderOwner::kTrain, FolderOwner::kJoin}),
            at + "/0, " + at + "/1, " + at + "/2, " + at + "/3, " + at + "/4 and 2 more");
  EXPECT_EQ(runs_within(all, {FolderOwner::kServe}), at + "/served");
  EXPECT_EQ(runs_within(all / "else", {FolderOwner::kTrain}), "");
  EXPECT_EQ(runs_within(all / "gone", {FolderOwner::kTrain}), "");
}

TEST_F(FolderClaims, EachCommandTakesItsOwnFolderAndNoOthers) {
  for (const auto& [owner, command] : owners_) {
    keep(owner);
    for (const auto& [other, refused] : owners_) {
      if (other == owner) {
        EXPECT_EQ(error(other), tests::kNoError) << command;
      } else {
        EXPECT_THAT(error(other), AllOf(HasSubstr(folder_.string()), HasSubstr(command),
                                        HasSubstr(refused), HasSubstr("choose another folder")));
      }
    }
  }
}

TEST_F(FolderClaims, ACoordinatorDoesNotTakeWhatATrainingLeftInItsFolder) {
  keep(FolderOwner::kServe);
  fs::create_directories(folder_ / "checkpoints");
  EXPECT_EQ(error(FolderOwner::kServe), tests::kNoError) << "with the final weights";
  write_file(folder_ / "events.jsonl", "");
  EXPECT_THAT(error(FolderOwner::kServe), HasSubstr("holds what `thinwire train` keeps there"));
  EXPECT_THAT(error(FolderOwner::kTrain), HasSubstr("holds what `thinwire serve` keeps there"));
}

TEST_F(FolderClaims, AServedRunThatLostItsServersFolderIsStillOne) {
  keep(FolderOwner::kTrain);
  write_file(folder_ / "description.json", "");
  EXPECT_THAT(error(FolderOwner::kTrain), HasSubstr("holds what `thinwire serve` keeps there"));
  EXPECT_EQ(error(FolderOwner::kServe), tests::kNoError);
}

TEST_F(FolderClaims, OneProcessAtATimeHoldsAFolderWhateverItsCommand) {
  std::optional<FolderClaim> first(std::in_place, folder_, FolderOwner::kTrain);
  for (const auto& [owner, command] : owners_) {
    EXPECT_THAT(error(owner), AllOf(HasSubstr("another process is using " + folder_.string()),
                                    HasSubstr("choose another folder")))
        << command;
  }
  first.reset();
  EXPECT_EQ(error(FolderOwner::kServe), tests::kNoError);
}

TEST_F(FolderClaims, AFolderWhoseRunIsServedAlreadyIsSaidToBe) {
  keep(FolderOwner::kServe);
  const FolderClaim first(folder_, FolderOwner::kServe);
  EXPECT_THAT(error(FolderOwner::kServe),
              AllOf(HasSubstr("another process is using " + folder_.string()),
                    HasSubstr("`thinwire serve` already works on this run here")));
}

TEST_F(FolderClaims, NothingIsWrittenIntoAFolderOfSomethingElse) {
  fs::create_directories(folder_);
  write_file(folder_ / "letter.txt", "dear");
  for (const auto& [owner, command] : owners_) {
    EXPECT_THAT(error(owner),
                AllOf(HasSubstr("holds something that is not a run of"), HasSubstr(command)));
  }
  EXPECT_FALSE(fs::exists(folder_ / ".lock"));
}

}  // namespace
}  // namespace thinwire::checkpoint
