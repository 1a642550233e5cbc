#include <gmock/gmock.h>

#include <map>
#include <string>

#include "../tiny_run.h"
#include "tests/errors.h"
#include "thinwire/base/error.h"
#include "thinwire/hosts/run_data.h"

namespace thinwire::hosts {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kDigest = 7;

class RunBase : public testing::Test {
 protected:
  RunBase() : folder_(test_folder()) {
    fs::create_directories(folder_ / "own");
    std::string large(40 << 20, 'x');
    for (size_t i = 0; i < large.size(); i += 1000) large[i] = static_cast<char>(i / 1000);
    write_file(folder_ / "own" / "config.json", "{}");
    write_file(folder_ / "own" / "empty", "");
    write_file(folder_ / "own" / "weights", large);
    const std::vector<fs::path> files = {folder_ / "own" / "config.json", folder_ / "own" / "empty",
                                         folder_ / "own" / "weights"};
    base_ = describe_base(kDigest, files);
    parts_ = base_parts(base_, folder_ / "own");
  }
  // Receives all parts, or fails after the first `until` of them.
  void receive(size_t until = 1000) {
    fetched_ = 0;
    receive_base(received(), base_,
                 {[&](const transport::BlobId& blob) {
                    if (fetched_ == until) throw Error("disconnected");
                    ++fetched_;
                    return read_part(parts_.at(blob.name), blob.name);
                  },
                  {}});
  }
  fs::path received() const { return folder_ / "received"; }
  void expect_equal_files() const {
    for (const char* name : {"config.json", "empty", "weights"}) {
      EXPECT_EQ(read_text_file(received() / name), read_text_file(folder_ / "own" / name));
    }
  }

  const fs::path folder_;
  DescribedBase base_;
  std::map<Sha256, FilePart> parts_;
  size_t fetched_ = 0;
};

TEST_F(RunBase, ArrivesAsItWasDescribed) {
  EXPECT_EQ(base_.digest, kDigest);
  EXPECT_EQ(base_.bytes(), (40u << 20) + 2);
  receive();
  EXPECT_EQ(fetched_, 5u) << "1 + 1 + 3 parts";
  expect_equal_files();
  receive(0);  // it is there
}

TEST_F(RunBase, KeepsThePartsThatHaveArrivedAndNoDamagedOnes) {
  EXPECT_THROW(receive(4), Error);
  EXPECT_FALSE(fs::exists(received()));
  const fs::path weights = received().string() + ".partial/weights";
  std::string text = read_text_file(weights);
  text[3] = static_cast<char>(text[3] + 1);
  write_file(weights, text);
  receive();
  EXPECT_EQ(fetched_, 2u) << "the one that was damaged, and the one that was missing";
  expect_equal_files();
}

TEST_F(RunBase, SaysWhichFileHasBecomeShorterOrHasChanged) {
  const fs::path weights = folder_ / "own" / "weights";
  const std::string text = read_text_file(weights);
  EXPECT_TRUE(has_files(folder_ / "own", base_));
  write_file(weights, "short");
  EXPECT_THAT(tests::error_of([&] { receive(); }),
              HasSubstr(weights.string() + " is shorter than when the run was founded"));
  EXPECT_FALSE(has_files(folder_ / "own", base_));
  write_file(weights, std::string(text.size(), 'y'));
  EXPECT_THAT(tests::error_of([&] { receive(); }),
              HasSubstr(weights.string() + " has changed since the run was founded"));
  EXPECT_FALSE(has_files(folder_ / "own", base_));
  write_file(weights, text + "more");
  EXPECT_FALSE(has_files(folder_ / "own", base_));
  fs::remove(weights);
  EXPECT_FALSE(has_files(folder_ / "own", base_));
}

TEST_F(RunBase, ThatTheDiskHasNoRoomForIsNotFetched) {
  base_.files.push_back({"huge", {{transport::blob_id({}).name, uint64_t{1} << 55}}});
  EXPECT_THAT(tests::error_of([&] { receive(); }),
              AllOf(HasSubstr("there is no room for the base: 36"), HasSubstr(received().string()),
                    HasSubstr(" free; make room, or name a copy of the base")));
  EXPECT_EQ(fetched_, 0u);
}

}  // namespace
}  // namespace thinwire::hosts
