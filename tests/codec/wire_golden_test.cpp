// The wire codecs against tests/golden/make_wire.py, an independent reference, to be met exactly.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/paths.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/json.h"
#include "thinwire/codec/wire.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::codec {
namespace {

TEST(WireGolden, ReceiversSeeWhatTheReferenceSays) {
  const tensor::SafetensorsReader golden(tests::source_file("tests/golden/wire.safetensors"));
  const auto cases = parse_json<nlohmann::json>(golden.metadata().at("cases"));
  ASSERT_FALSE(cases.empty());
  for (const std::string name : cases) {
    const std::vector<float> values = golden.read_f32("values." + name);
    for (const auto type :
         {WireType::kBf16, WireType::kFp8, WireType::kFp4, WireType::kInt2, WireType::kInt1}) {
      SCOPED_TRACE(fmt::format("{} as {}", name, wire_name(type)));
      Bytes bytes(wire_bytes(type, values.size()));
      wire_codec(type).encode(values, bytes);
      std::vector<float> received(values.size());
      ASSERT_TRUE(wire_codec(type).decode(bytes, received).has_value());
      EXPECT_EQ(received, golden.read_f32(fmt::format("{}.{}", wire_name(type), name)));
    }
  }
}

}  // namespace
}  // namespace thinwire::codec
