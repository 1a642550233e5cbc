#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/base/wire.h"
#include "thinwire/codec/payload.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/codec/value_sketch.h"
#include "thinwire/codec/wire.h"
#include "thinwire/method/tiles.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::codec {
namespace {

using testing::HasSubstr;

const tensor::Layout& layout() {
  static const tensor::Layout layout(
      {{"matrix", {8, 8}, TensorRole::kMatrix}, {"norm", {8}, TensorRole::kNorm}});
  return layout;
}

Bytes coded(const std::vector<float>& values, WireType wire) {
  Bytes bytes(wire_bytes(wire, values.size()));
  wire_codec(wire).encode(values, bytes);
  return bytes;
}

Result<PayloadContent> read_dense(const Bytes& payload, WireType wire, size_t values) {
  const auto reader = dense_reader(wire, wire, 0);
  return reader->read(payload, {}, wire_bytes(wire, values));
}

TEST(PayloadReader, DenseContributionsAreMeasuredInEveryFormat) {
  std::vector<float> values(20'016);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 1.0f : -1.0f;
  for (const WireType wire : {WireType::kF32, WireType::kBf16, WireType::kFp8, WireType::kFp4}) {
    const auto content = read_dense(coded(values, wire), wire, values.size());
    ASSERT_TRUE(content) << content.error().message;
    EXPECT_NEAR(content->magnitude.norm(), std::sqrt(20'016.0), 1e-3) << wire_name(wire);
    EXPECT_EQ(content->magnitude.values, 20'016) << wire_name(wire);
  }
}

TEST(PayloadReader, DenseContributionsHaveTheirValuesDirectionInEveryFormat) {
  std::vector<float> values(20'016);
  Rng rng(1, 1);
  for (float& value : values) value = static_cast<float>(rng.normal());
  ValueSketch sketch(0);
  sketch.add(0, values);
  for (const WireType wire : {WireType::kF32, WireType::kBf16, WireType::kFp8, WireType::kFp4}) {
    const auto content = read_dense(coded(values, wire), wire, values.size());
    ASSERT_TRUE(content) << content.error().message;
    EXPECT_GT(cosine(content->direction, sketch.direction()), 0.97) << wire_name(wire);
  }
  const std::vector<float> nothing(32);
  EXPECT_TRUE(read_dense(coded(nothing, WireType::kF32), WireType::kF32, 32)->direction.empty());
}

TEST(PayloadReader, DenseContributionsThatAreNotFiniteAreRefused) {
  for (const WireType wire : {WireType::kF32, WireType::kBf16, WireType::kFp8}) {
    for (const float bad : {NAN, INFINITY}) {
      std::vector<float> values(16'400, 1.0f);
      values.back() = bad;
      const auto content = read_dense(coded(values, wire), wire, values.size());
      ASSERT_FALSE(content) << wire_name(wire);
      EXPECT_THAT(content.error().message, HasSubstr("not finite"));
    }
  }
}

TEST(PayloadReader, DenseContributionsHaveTheLengthOfTheirOperation) {
  const Bytes payload = coded(std::vector<float>(32, 1.0f), WireType::kF32);
  EXPECT_TRUE(read_dense(payload, WireType::kF32, 32));
  EXPECT_FALSE(read_dense(payload, WireType::kF32, 48));
  EXPECT_FALSE(read_dense(payload, WireType::kF32, 16));
}

// One coefficient of 3 in the first tile of each tensor.
Bytes distro_payload(const method::DistroOptions& options, const PayloadId& id) {
  const auto shapes = shapes_of(method::plan_tiles(layout().specs(), options.tiles()));
  SparseTiles tiles(shapes);
  for (const SparseShape& shape : shapes) {
    tiles.counts[static_cast<size_t>(shape.first_tile)] = 1;
    tiles.values[static_cast<size_t>(shape.first_kept)] = 3;
  }
  for (size_t i = 0; i < shapes.size(); ++i) quantise(shapes[i], i, options.values, tiles);
  Bytes payload;
  begin_payload(id, payload);
  encode_sparse(shapes, options.values, tiles, payload);
  seal_payload(payload);
  return payload;
}

TEST(PayloadReader, PayloadsAreReadAsTheirMembersOnly) {
  method::DistroOptions options;
  options.values = ValueFormat::kF32;
  const auto reader =
      sparse_reader(PayloadMethod::kDistro, options.values,
                    shapes_of(method::plan_tiles(layout().specs(), options.tiles())), 0);
  PayloadId id;
  id.run = 7;
  id.sender = 2;
  id.round = 5;
  const Bytes payload = distro_payload(options, id);
  const auto content = reader->read(payload, id, payload.size());
  ASSERT_TRUE(content) << content.error().message;
  EXPECT_DOUBLE_EQ(content->magnitude.norm(), std::sqrt(2 * 9.0));
  EXPECT_EQ(content->magnitude.values, 2);
  const auto shapes = shapes_of(method::plan_tiles(layout().specs(), options.tiles()));
  ValueSketch sketch(0);
  const std::vector<float> three = {3};
  sketch.add(0, three);
  sketch.add(static_cast<uint64_t>(shapes[0].tiles * shapes[0].slots), three);
  EXPECT_EQ(content->direction, sketch.direction());
  PayloadId copied = id;
  copied.sender = 3;
  EXPECT_FALSE(reader->read(payload, copied, payload.size()));
  // A copy under the copier's own name has the same values.
  const Bytes again = distro_payload(options, copied);
  const auto copy = reader->read(again, copied, again.size());
  ASSERT_TRUE(copy);
  const auto original = reader->read(payload, id, payload.size());
  EXPECT_THAT(copy->body, testing::ElementsAreArray(original->body));
  Bytes damaged = payload;
  damaged.back() ^= 1;
  EXPECT_FALSE(reader->read(damaged, id, damaged.size()));
}

}  // namespace
}  // namespace thinwire::codec
