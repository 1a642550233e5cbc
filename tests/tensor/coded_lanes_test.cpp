// State in few bits that a block of threads changes, as on a GPU, against one lane.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tensor/block_lanes.h"
#include "tests/tensor/numbers.h"
#include "thinwire/tensor/kernels/portable_formats.h"

namespace thinwire::tensor {
namespace {

constexpr int64_t kCount = 5 * kStateBlock + 7;
constexpr int kSteps = 3;

// A tensor, its gradient, and AdamW's state.
struct State {
  ChangeCoded<AdamwValue> kernel(bool codes) {
    const AdamwRule rule = {0.9f, 0.1f, 0.95f, 0.05f, 0.01f, 0.2f, 1e-8f, 0.999f, 1.0f};
    const auto piece = [&](int number, BlockCode code) {
      const auto at = static_cast<size_t>(number);
      if (!codes) return CodedPiece{key + at, code, bf16[at].data(), nullptr, nullptr};
      return CodedPiece{key + at, code, nullptr, coded[at].data(), exponents[at].data()};
    };
    return {{rule, gradient.data(), params.data()},
            kCount,
            {piece(0, BlockCode::kSigned), piece(1, BlockCode::kMagnitude)},
            &failed};
  }

  uint64_t key = 1;
  std::vector<float> gradient = random_values<float>(kCount, 1);
  std::vector<float> params = random_values<float>(kCount, 2);
  std::vector<std::vector<uint8_t>> coded{2, std::vector<uint8_t>(kCount)};
  std::vector<std::vector<uint8_t>> exponents{
      2, std::vector<uint8_t>(static_cast<size_t>(state_blocks(kCount)))};
  std::vector<std::vector<Bf16>> bf16{2, std::vector<Bf16>(kCount)};
  int32_t failed = 0;
};

std::vector<uint16_t> bits_of(const std::vector<Bf16>& values) {
  std::vector<uint16_t> bits;
  for (const Bf16 value : values) bits.push_back(value.bits);
  return bits;
}

TEST(CodedLanes, ABlockOfThreadsChangesStateAsOneLaneDoes) {
  for (const bool codes : {false, true}) {
    State one, block;
    for (int step = 0; step < kSteps; ++step) {
      one.key = block.key = 10 * static_cast<uint64_t>(step);
      by_one(one.kernel(codes), one.kernel(codes).rows());
      by_block(kStateBlock, block.kernel(codes), block.kernel(codes).rows());
      EXPECT_EQ(block.params, one.params) << step;
      EXPECT_EQ(block.coded, one.coded) << step;
      EXPECT_EQ(block.exponents, one.exponents) << step;
      for (size_t piece = 0; piece < 2; ++piece) {
        EXPECT_EQ(bits_of(block.bf16[piece]), bits_of(one.bf16[piece])) << step;
      }
    }
    EXPECT_EQ(block.failed, 0);
    const std::vector<uint8_t> never(static_cast<size_t>(kCount));
    EXPECT_EQ(block.coded[1] != never, codes);
  }
}

}  // namespace
}  // namespace thinwire::tensor
