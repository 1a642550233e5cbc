// Compares with tests/golden/shares.json, which tests/golden/make_shares.py made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

TEST(RowShares, AreEvenWhereNothingIsKnown) {
  const std::vector<uint8_t> all(3, 1);
  EXPECT_EQ(share_rows(16, all, {}), (Rows{5, 5, 6}));
  EXPECT_EQ(share_rows(16, all, std::vector<float>(3)), (Rows{5, 5, 6}));
}

}  // namespace
}  // namespace thinwire::schedule
