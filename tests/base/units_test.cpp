#include "thinwire/base/units.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "thinwire/base/error.h"

namespace thinwire {
namespace {

TEST(FormatParameters, CountsBillionsAsB) {
  EXPECT_EQ(format_parameters(1.2049e9), "1.20 B");
  EXPECT_EQ(format_parameters(35e6), "35.0 M");
  EXPECT_EQ(format_parameters(12), "12");
}

TEST(WithoutNanSign, ShowsNanAlikeAndLeavesNumbersAlone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(fmt::format("{} {:.3f}", without_nan_sign(-nan), without_nan_sign(nan)), "nan nan");
  EXPECT_EQ(without_nan_sign(-1.5), -1.5);
  EXPECT_EQ(fmt::format("{}", without_nan_sign(-HUGE_VAL)), "-inf");
}

TEST(Counted, HasAnSUnlessThereIsOne) {
  EXPECT_EQ(counted(int64_t{0}, "document"), "0 documents");
  EXPECT_EQ(counted(int64_t{1}, "document"), "1 document");
  EXPECT_EQ(counted(uint64_t{2}, "document"), "2 documents");
}

TEST(FormatBytes, HasThreeDigitsAndAUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(1'234'567), "1.23 MB");
  EXPECT_EQ(format_bytes(12'345'678), "12.3 MB");
  EXPECT_EQ(format_bytes(123'456'789), "123 MB");
  EXPECT_EQ(format_bytes(74.4e9), "74.4 GB");
  EXPECT_EQ(format_bytes(-2500), "-2.50 kB");
}

TEST(FormatBytes, NeverRoundsUpToAThousand) {
  EXPECT_EQ(format_bytes(999.7), "1.00 kB");
  EXPECT_EQ(format_bytes(999'499), "999 kB");
  EXPECT_EQ(format_bytes(999'500), "1.00 MB");
  EXPECT_EQ(format_bytes(9'996), "10.0 kB");
  EXPECT_EQ(format_bytes(1e20), "100000 PB");
}

TEST(FormatCount, HasNoUnit) {
  EXPECT_EQ(format_count(7), "7");
  EXPECT_EQ(format_count(3'012'345), "3.01 M");
}

TEST(FormatSeconds, ChoosesItsUnits) {
  EXPECT_EQ(format_seconds(4.2), "4.2 s");
  EXPECT_EQ(format_seconds(59.97), "1 min 00 s");
  EXPECT_EQ(format_seconds(75), "1 min 15 s");
  EXPECT_EQ(format_seconds(3599.9), "1 h 00 min");
  EXPECT_EQ(format_seconds(3725), "1 h 02 min");
  EXPECT_EQ(format_seconds(50 * 3600), "2 d 02 h");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::infinity()), "inf s");
}

TEST(FormatSeconds, KeepsDigitsOfShortTimes) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(1.0), "1.0 s");
  EXPECT_EQ(format_seconds(0.9996), "1.0 s");
  EXPECT_EQ(format_seconds(0.127), "127 ms");
  EXPECT_EQ(format_seconds(0.0123), "12 ms");
  EXPECT_EQ(format_seconds(0.0099), "9.9 ms");
  EXPECT_EQ(format_seconds(0.00996), "10 ms");
  EXPECT_EQ(format_seconds(0.00042), "420 µs");
  EXPECT_EQ(format_seconds(0.9996e-3), "1.0 ms");
  EXPECT_EQ(format_seconds(4.2e-6), "4.2 µs");
  EXPECT_EQ(format_seconds(1e-9), "0 s");
  EXPECT_EQ(format_seconds(-0.0123), "-12 ms");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::quiet_NaN()), "nan s");
}

TEST(ParseQuantity, ReadsNumbersWithSuffixes) {
  EXPECT_EQ(parse_quantity("512"), 512);
  EXPECT_EQ(parse_quantity("-0.5"), -0.5);
  EXPECT_EQ(parse_quantity("1e6"), 1e6);
  EXPECT_EQ(parse_quantity("10k"), 1e4);
  EXPECT_EQ(parse_quantity("4M"), 4e6);
  EXPECT_EQ(parse_quantity("0.8G"), 0.8e9);
  EXPECT_EQ(parse_quantity("150T"), 150e12);
  EXPECT_EQ(parse_quantity("2P"), 2e15);
}

TEST(ParseQuantity, IsExactForDecimalFractions) {
  EXPECT_EQ(parse_quantity("2.3M"), 2'300'000);
  EXPECT_EQ(parse_quantity("1.1k"), 1100);
  EXPECT_EQ(parse_quantity("4.35G"), 4'350'000'000);
}

TEST(ParseQuantity, RefusesEverythingElseByName) {
  for (const char* text : {"", "M", "1MB", "1 M", "1m", "1K", "k1", "1e3k", "0x10", "nan", "inf",
                           "infk", "1e400", "9e307P", "--1", "1..2", "1M\n"}) {
    try {
      parse_quantity(text);
      ADD_FAILURE() << "accepted " << text;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("'" + std::string(text) + "'"));
    }
  }
}

TEST(ParseQuantity, TakesTheUnitBehindTheNumber) {
  EXPECT_EQ(parse_quantity("0.8Gbit/s", "bit/s"), 0.8e9);
  EXPECT_EQ(parse_quantity("0.8 Gbit/s", "bit/s"), 0.8e9);
  EXPECT_EQ(parse_quantity("0.8G", "bit/s"), 0.8e9);
  EXPECT_EQ(parse_quantity("5 B", "B"), 5);
  for (const char* text : {"0.8GB/s", "bit/s", "1 G"}) {
    EXPECT_THROW(parse_quantity(text, "bit/s"), UsageError) << text;
  }
}

TEST(ParseQuantity, BytesMayHaveSuffixesOfPowersOf1024) {
  EXPECT_EQ(parse_quantity("16GiB", "B"), 17'179'869'184);
  EXPECT_EQ(parse_quantity("16 GiB", "B"), 17'179'869'184);
  EXPECT_EQ(parse_quantity("1.5Gi", "B"), 1'610'612'736);
  EXPECT_EQ(parse_quantity("64KiB", "B"), 65'536);
  EXPECT_EQ(parse_quantity("3MiB", "B"), 3'145'728);
  EXPECT_EQ(parse_quantity("0.5TiB", "B"), 549'755'813'888);
  EXPECT_EQ(parse_quantity("1PiB", "B"), 0x1p50);
  EXPECT_EQ(parse_quantity("16GB", "B"), 16e9);
}

TEST(ParseQuantity, RefusesWrongBinarySuffixesByName) {
  for (const char* text :
       {"16giB", "16GIB", "16kiB", "GiB", "1GiGiB", "1kGiB", "1GkiB", "1iB", "1e308PiB", "16Gib"}) {
    try {
      parse_quantity(text, "B");
      ADD_FAILURE() << "accepted " << text;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("'" + std::string(text) + "'"),
                                               testing::HasSubstr("Gi")));
    }
  }
  // Only bytes have them.
  EXPECT_THROW(parse_quantity("16Gi"), UsageError);
  EXPECT_THROW(parse_quantity("16Gibit/s", "bit/s"), UsageError);
}

RC_GTEST_PROP(ParseQuantity, ReadsEveryIntegerBack, (int32_t value)) {
  RC_ASSERT(parse_quantity(std::to_string(value)) == value);
  RC_ASSERT(parse_quantity(std::to_string(value) + "k") == 1000.0 * value);
}

}  // namespace
}  // namespace thinwire
