#include "thinwire/member/snapshot.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "tests/tiny_run.h"

namespace thinwire::member {
namespace {

class Snapshot : public testing::Test {
 protected:
  Snapshot()
      : folder_(test_folder() / kSnapshotFolder),
        layout_({{"a.weight", {3, 5}}, {"b.weight", {7}}}),
        moments_(40),
        codes_(24, 7) {
    std::iota(moments_.begin(), moments_.end(), 0.5f);
  }

  tensor::Arena weights(WeightFormat format) const {
    tensor::Arena arena(layout_, format);
    for (size_t i = 0; i < layout_.size(); ++i) {
      arena.fill_tensor(
          i, [](std::span<float> values) { std::iota(values.begin(), values.end(), 1.0f); });
    }
    return arena;
  }
  std::vector<NamedValues> state() const {
    return {{"m", moments_}, {"codes", DType::kU8, codes_}};
  }
  Bytes made(WeightFormat format = WeightFormat::kF32) const {
    return make_snapshot(9, 12, weights(format), state(), folder_);
  }

  const fs::path folder_;
  const tensor::Layout layout_;
  std::vector<float> moments_;
  Bytes codes_;
};

TEST_F(Snapshot, HoldsEveryTensorInItsOwnType) {
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBf16}) {
    const auto opened = open_snapshot(made(format), folder_);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ((*opened)->meta().step, 12);
    EXPECT_EQ((*opened)->meta().run, 9);
    EXPECT_EQ((*opened)->weights().find("a.weight").dtype,
              format == WeightFormat::kF32 ? DType::kF32 : DType::kBf16);
    tensor::Arena read(layout_, format);
    (*opened)->read_weights(read);
    EXPECT_TRUE(std::ranges::equal(read.bytes(), weights(format).bytes()));
    Bytes codes(codes_.size());
    (*opened)->read_consensus(StateTensor("codes", DType::kU8, codes, Agreement::kConsensus));
    EXPECT_EQ(codes, codes_);
    std::vector<float> moments(moments_.size());
    (*opened)->read_consensus("m", moments);
    EXPECT_EQ(moments, moments_);
  }
}

TEST_F(Snapshot, IsTheSameForEverybodyAndLeavesNoFiles) {
  EXPECT_EQ(made(), make_snapshot(9, 12, weights(WeightFormat::kF32), state(),
                                  test_folder() / "elsewhere"));
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_TRUE(open_snapshot(made(), folder_));
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(Snapshot, ThatCannotBeWrittenIsDeclinedWithAMessage) {
  fs::create_directories(folder_.parent_path());
  write_file(folder_.parent_path() / "file", "");
  const fs::path below_a_file = folder_.parent_path() / "file" / kSnapshotFolder;
  std::string told;
  const auto tell = [&](const std::string& text) { told = text; };
  EXPECT_EQ(try_make_snapshot(9, 12, weights(WeightFormat::kF32), state(), below_a_file, tell),
            std::nullopt);
  EXPECT_THAT(told, testing::AllOf(testing::HasSubstr("cannot make a snapshot"),
                                   testing::HasSubstr(below_a_file.string())));
  EXPECT_THROW((void)open_snapshot(made(), below_a_file), Error);
  told.clear();
  EXPECT_EQ(try_make_snapshot(9, 12, weights(WeightFormat::kF32), state(), folder_, tell), made());
  EXPECT_EQ(told, "");
}

TEST_F(Snapshot, RemovesWhatAKilledProcessHasLeft) {
  const fs::path partial = folder_.string() + ".partial";
  for (const fs::path& left : {folder_, partial}) fs::create_directories(left / "within");
  EXPECT_TRUE(open_snapshot(made(), folder_));
  EXPECT_FALSE(fs::exists(folder_) || fs::exists(partial));
}

TEST_F(Snapshot, SaysWhatIsWrongWithOtherBytes) {
  const auto why = [&](const Bytes& bytes) {
    const auto opened = open_snapshot(bytes, folder_);
    return opened ? std::string() : opened.error().message;
  };
  Bytes older = made();
  older[4] = 1;
  EXPECT_THAT(why(older), testing::HasSubstr("it is of version 1, this program's is 2"));
  Bytes shorter = made();
  shorter.pop_back();
  EXPECT_THAT(why(shorter), testing::HasSubstr("it is truncated"));
  Bytes longer = made();
  longer.push_back(0);
  EXPECT_THAT(why(longer), testing::HasSubstr("bytes follow its end"));
  Bytes altered = made();
  altered.back() ^= 1;
  EXPECT_THAT(why(altered), testing::HasSubstr("consensus.safetensors was altered"));
  EXPECT_FALSE(fs::exists(folder_));
}

}  // namespace
}  // namespace thinwire::member
