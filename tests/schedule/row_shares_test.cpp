// Compares with tests/golden/shares.json, which tests/golden/make_shares.py made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/paths.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::schedule {
namespace {

using Rows = std::vector<uint64_t>;

TEST(RowShares, LastWorkerFinishesAsEarlyAsCanBe) {
  const auto golden =
      parse_json<nlohmann::json>(read_text_file(tests::source_file("tests/golden/shares.json")));
  ASSERT_GE(golden["cases"].size(), 10u);
  for (const auto& reference : golden["cases"]) {
    const auto speeds = reference["speeds"].get<std::vector<float>>();
    const auto present = reference["present"].get<std::vector<uint8_t>>();
    EXPECT_THAT(reference["best"].get<std::vector<Rows>>(),
                testing::Contains(share_rows(reference["batch"], present, speeds)))
        << reference;
  }
}

TEST(RowShares, OfManyUnequalMembersAddUpToTheBatch) {
  constexpr size_t kMembers = 20'000;
  std::vector<float> speeds;
  for (size_t m = 0; m < kMembers; ++m) speeds.push_back(1 + static_cast<float>(m * 7919 % 997));
  const std::vector<uint8_t> all(kMembers, 1);
  for (const uint64_t batch : {2 * kMembers, 10 * kMembers + 1}) {
    const Rows rows = share_rows(batch, all, speeds);
    EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), uint64_t{0}), batch);
    EXPECT_THAT(rows, testing::Each(testing::Ge(1u)));
  }
}

TEST(RowShares, AreEvenWhereNothingIsKnown) {
  const std::vector<uint8_t> all(3, 1);
  EXPECT_EQ(share_rows(16, all, {}), (Rows{5, 5, 6}));
  EXPECT_EQ(share_rows(16, all, std::vector<float>(3)), (Rows{5, 5, 6}));
}

}  // namespace
}  // namespace thinwire::schedule
