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
  for (const char* text : {"0.8GB", "bit/s", "1 G"}) {
    EXPECT_THROW(parse_quantity(text, "bit/s"), UsageError) << text;
  }
}

TEST(ParseQuantity, TakesRatesAsPeopleWriteThem) {
  for (const char* text :
       {"10Mbps", "10mbps", "10 Mbit/s", "10Mbit", "10mbit", "10MBIT/S", "10Mb/s", "10mb/s",
        "10M bits/s", "0.01Gbps", "10000Kbit/s", "10000kbps"}) {
    EXPECT_EQ(parse_quantity(text, "bit/s"), 10e6) << text;
  }
  for (const char* text : {"10MB/s", "10 MB/s", "10MBps", "10mB/s", "10Mbyte/s", "10 MBytes/s"}) {
    EXPECT_EQ(parse_quantity(text, "bit/s"), 80e6) << text;
  }
  EXPECT_EQ(parse_quantity("1MiB/s", "bit/s"), 8'388'608);
  for (const char* text : {"165TFLOPS", "165 TFLOPS", "165tflops", "165TFLOPs", "165 TFLOP/s",
                           "165Tflop/s", "165T", "0.165PFLOPS"}) {
    EXPECT_EQ(parse_quantity(text, "FLOP/s"), 165e12) << text;
  }
  EXPECT_EQ(parse_quantity("2k tok/s", "tokens/s"), 2000);
}

TEST(ParseQuantity, AsksWhereAUnitHasTwoMeanings) {
  for (const char* text : {"10MB", "10Mb", "10mb", "10MBPS", "10MB/S", "10 Mb"}) {
    try {
      parse_quantity(text, "bit/s");
      ADD_FAILURE() << "accepted " << text;
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(),
                fmt::format("'{}': does it count bytes (10MB/s) or bits (10Mbit/s)?", text));
    }
  }
  for (const char* text : {"b", "fastb", "10MW", "10TB/s"}) {
    EXPECT_THROW(parse_quantity(text, "FLOP/s"), UsageError) << text;
    EXPECT_EQ(unit_question(text, "FLOP/s"), "") << text;
  }
  EXPECT_EQ(unit_question("fastb", "bit/s"), "");
  EXPECT_EQ(unit_question("10MW", "bit/s"), "");
}

TEST(ParseQuantity, AsksWhatABareSmallRateMeans) {
  EXPECT_EQ(unit_question("10", "bit/s"),
            "is it 10 Mbit/s or 10 bit/s? Write the unit, too: 10Mbit/s");
  EXPECT_EQ(unit_question("40", "FLOP/s"),
            "is it 40 TFLOP/s or 40 FLOP/s? Write the unit, too: 40TFLOP/s");
  for (const char* text : {"10", "0.8", "999"}) {
    EXPECT_THROW(parse_quantity(text, "bit/s"), UsageError) << text;
    EXPECT_THROW(parse_quantity(text, "FLOP/s"), UsageError) << text;
  }
  EXPECT_EQ(parse_quantity("10bit/s", "bit/s"), 10);
  EXPECT_EQ(parse_quantity("0.5 bit/s", "bit/s"), 0.5);
  EXPECT_EQ(parse_quantity("10bps", "bit/s"), 10);
  EXPECT_EQ(parse_quantity("1k", "bit/s"), 1000);
  EXPECT_EQ(parse_quantity("1000", "bit/s"), 1000);
  EXPECT_EQ(parse_quantity("0", "bit/s"), 0);
  EXPECT_EQ(parse_quantity("10", "B"), 10);
}

TEST(ParseQuantity, TakesTimesAsPeopleWriteThem) {
  EXPECT_EQ(parse_quantity("20ms", "s"), 0.02);
  EXPECT_EQ(parse_quantity("35 ms", "s"), 0.035);
  EXPECT_EQ(parse_quantity("150us", "s"), 150e-6);
  EXPECT_EQ(parse_quantity("150 µs", "s"), 150e-6);
  EXPECT_EQ(parse_quantity("1.5s", "s"), 1.5);
  EXPECT_EQ(parse_quantity("10 min", "s"), 600);
  EXPECT_EQ(parse_quantity("2h", "s"), 7200);
  EXPECT_EQ(parse_quantity("1d", "s"), 86400);
  EXPECT_EQ(parse_quantity("90s", "min"), 1.5);
  EXPECT_EQ(parse_quantity("2h", "min"), 120);
  for (const char* text : {"20 m", "10Min", "ms", "h", "1h30min", "20mss"}) {
    try {
      parse_quantity(text, "s");
      ADD_FAILURE() << "accepted " << text;
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(), fmt::format("'{}' is not a time; times are written like 20ms, 1.5s, "
                                          "10min, 2h or 1d",
                                          text));
    }
  }
}

TEST(ParseQuantity, AsksWhatABareNumberOfMemoryOrDelayMeans) {
  EXPECT_EQ(unit_question("16", "B", "--memory"), "is it 16 GB or 16 B? Write the unit, too: 16GB");
  EXPECT_EQ(unit_question("4096", "B", "memory_bytes"),
            "is it 4096 MB or 4096 B? Write the unit, too: 4096MB");
  EXPECT_EQ(unit_question("20", "s", "--delay"), "is it 20 ms or 20 s? Write the unit, too: 20ms");
  for (const char* text : {"0", "1e6", "16B", "16GB"}) {
    EXPECT_EQ(unit_question(text, "B", "--limit"), "") << text;
  }
  for (const char* text : {"0.02", "2", "20s"}) {
    EXPECT_EQ(unit_question(text, "s", "--delay"), "") << text;
  }
  EXPECT_EQ(unit_question("20", "s", "delay_s"), "");  // its name has the unit
  EXPECT_EQ(unit_question("10", "B", "--payload"), "");
  EXPECT_EQ(unit_question("20", "s", "timeout_s"), "");
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
