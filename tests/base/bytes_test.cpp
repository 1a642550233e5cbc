#include "thinwire/base/bytes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace thinwire {
namespace {

TEST(Bytes, ReadsBackWhatWasWritten) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put(uint8_t{7});
  writer.put(int64_t{-3});
  writer.put_string("wire");
  writer.put(1.5f);
  ByteReader reader(bytes);
  EXPECT_EQ(reader.get<uint8_t>(), 7);
  EXPECT_EQ(reader.get<int64_t>(), -3);
  EXPECT_EQ(reader.get_string(), "wire");
  EXPECT_EQ(reader.get<float>(), 1.5f);
  EXPECT_TRUE(reader.at_end());
}

TEST(Bytes, AreLittleEndian) {
  Bytes bytes;
  ByteWriter(bytes).put(uint32_t{0x01020304});
  EXPECT_EQ(bytes, (Bytes{4, 3, 2, 1}));
}

TEST(ByteReader, AfterAShortReadEverythingIsZero) {
  const Bytes bytes = {1, 2, 3, 4, 5};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.get<uint64_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.get<uint8_t>(), 0);  // would have been there
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_FALSE(reader.at_end());
}

TEST(ByteReader, RefusesAStringLongerThanTheInput) {
  const Bytes bytes = {0xff, 0xff, 0xff, 0xff, 'a'};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.get_string(), "");
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, AnEmptyInputIsAtItsEnd) {
  ByteReader reader({});
  EXPECT_TRUE(reader.at_end());
  EXPECT_TRUE(reader.get_bytes(0).empty());
  EXPECT_TRUE(reader.ok());
}

// Any sequence of reads over any bytes stays inside and accounts for every byte.
RC_GTEST_PROP(ByteReader, IsTotal, (const Bytes& bytes, const std::vector<uint8_t>& reads)) {
  ByteReader reader(bytes);
  for (const uint8_t read : reads) {
    const size_t before = reader.remaining();
    switch (read % 4) {
      case 0:
        reader.get<uint16_t>();
        break;
      case 1:
        reader.get<double>();
        break;
      case 2:
        reader.get_string();
        break;
      default:
        reader.get_bytes(read);
        break;
    }
    RC_ASSERT(reader.remaining() <= before);
    RC_ASSERT(reader.ok() || reader.remaining() == 0u);
  }
}

}  // namespace
}  // namespace thinwire
