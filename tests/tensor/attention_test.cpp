#include "thinwire/tensor/kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <type_traits>

#include "tests/tensor/emulated_amx.h"
#include "tests/tensor/numbers.h"
#include "tests/tensor/reference.h"
#include "thinwire/tensor/kernels/kernels.h"

namespace thinwire::tensor {
namespace {

constexpr double kTheta = 1000;

struct Case {
  AttentionShape shape;
  int64_t sequence;
};

// Ways of computing attention: the type of operands and the products.
struct Fp32 {
  using T = float;
  static constexpr const char* kName = "fp32";
  static const Bf16Tiles* products() { return nullptr; }
};
struct WidenedBf16 {
  using T = Bf16;
  static constexpr const char* kName = "bf16_widened";
  static const Bf16Tiles* products() { return nullptr; }
};
struct Avx512Bf16 {
  using T = Bf16;
  static constexpr const char* kName = "bf16_avx512";
  static const Bf16Tiles* products() { return avx512_bf16_tiles(); }
};
struct AmxBf16 {
  using T = Bf16;
  static constexpr const char* kName = "bf16_amx";
  static const Bf16Tiles* products() { return amx_bf16_tiles(); }
};
struct EmulatedAmxBf16 {
  using T = Bf16;
  static constexpr const char* kName = "bf16_emulated_amx";
  static const Bf16Tiles* products() { return &kEmulatedAmx; }
};
template <typename Way>
constexpr bool kTiled = !std::is_same_v<Way, Fp32> && !std::is_same_v<Way, WidenedBf16>;

template <typename Way>
class AttentionTest : public testing::Test {
 protected:
  using T = typename Way::T;

  void SetUp() override {
    if (kTiled<Way> && Way::products() == nullptr) {
      GTEST_SKIP() << "no " << Way::kName << ": this processor lacks its products";
    }
  }

  // Runs all key/value heads.
  void forward(const Case& c, const std::vector<T>& qkv) {
    out_.assign(c.sequence * c.shape.width(), T());
    log_sum_exp_.assign(c.sequence * c.shape.heads, 0);
    const RopeTable rope(c.sequence, c.shape.head_size, RopeSpec{kTheta});
    AttentionScratch scratch(c.sequence, c.shape.head_size, Way::products());
    for (int64_t head = 0; head < c.shape.kv_heads; ++head) {
      attention_forward<T>(c.shape, rope, c.sequence, head, qkv.data(), out_.data(),
                           log_sum_exp_.data(), scratch);
    }
  }
  std::vector<T> backward(const Case& c, std::vector<T> qkv, const std::vector<T>& dout) {
    const RopeTable rope(c.sequence, c.shape.head_size, RopeSpec{kTheta});
    AttentionScratch scratch(c.sequence, c.shape.head_size, Way::products());
    for (int64_t head = 0; head < c.shape.kv_heads; ++head) {
      attention_backward<T>(c.shape, rope, c.sequence, head, qkv.data(), out_.data(), dout.data(),
                            log_sum_exp_.data(), scratch);
    }
    return qkv;
  }

  std::vector<T> out_;
  std::vector<float> log_sum_exp_;
};

struct WayNames {
  template <typename Way>
  static std::string GetName(int) {
    return Way::kName;
  }
};
using Ways = testing::Types<Fp32, WidenedBf16, Avx512Bf16, AmxBf16, EmulatedAmxBf16>;
TYPED_TEST_SUITE(AttentionTest, Ways, WayNames);

TYPED_TEST(AttentionTest, EqualsTheReference) {
  // Plain, grouped and multi-query; sequences of one token, up to, at and beyond a block of
  // queries, and of several blocks of keys.
  for (const Case& c :
       {Case{{2, 2, 8}, 1}, Case{{4, 2, 16}, 64}, Case{{3, 1, 6}, 65}, Case{{2, 2, 32}, 150},
        Case{{2, 1, 80}, 130}, Case{{1, 1, 128}, 70}, Case{{2, 1, 4}, 1100}, Case{{2, 2, 8, 1}, 70},
        Case{{4, 2, 16, 5}, 64}, Case{{2, 1, 6, 65}, 200}, Case{{2, 1, 4, 400}, 1100},
        Case{{1, 1, 4, 700}, 1300}, Case{{2, 2, 8, 0, false}, 1}, Case{{4, 2, 6, 0, false}, 150},
        Case{{2, 1, 4, 0, false}, 1100}}) {
    const auto qkv = random_values<typename TypeParam::T>(c.sequence * c.shape.qkv_width(), 1);
    this->forward(c, qkv);
    const Matrix expected = reference::attention(c.shape, kTheta, c.sequence, widen(qkv));
    EXPECT_LT(error(this->out_, expected), kBound<typename TypeParam::T>)
        << c.sequence << " positions, window " << c.shape.window << ", causal " << c.shape.causal;
  }
}

TYPED_TEST(AttentionTest, GradientsEqualFiniteDifferences) {
  for (const Case& c :
       {Case{{2, 2, 4}, 9}, Case{{4, 2, 2}, 7}, Case{{2, 1, 2}, 67}, Case{{2, 1, 4, 3}, 11},
        Case{{2, 2, 2, 20}, 67}, Case{{2, 1, 4, 0, false}, 11}, Case{{2, 2, 2, 0, false}, 67}}) {
    const auto qkv = random_values<typename TypeParam::T>(c.sequence * c.shape.qkv_width(), 1);
    const auto dout = random_values<typename TypeParam::T>(c.sequence * c.shape.width(), 2);
    this->forward(c, qkv);
    const Matrix expected = derivative(widen(qkv), [&](const Matrix& at) {
      return dot(reference::attention(c.shape, kTheta, c.sequence, at), widen(dout));
    });
    EXPECT_LT(error(this->backward(c, qkv, dout), expected), 2 * kBound<typename TypeParam::T>)
        << c.sequence << " positions, window " << c.shape.window << ", causal " << c.shape.causal;
  }
}

TYPED_TEST(AttentionTest, GradientsAcrossBlocksOfKeysEqualDirectionalDerivatives) {
  for (const AttentionShape& shape :
       {AttentionShape{2, 1, 4, 0}, AttentionShape{2, 1, 4, 60}, AttentionShape{2, 1, 4, 600},
        AttentionShape{2, 1, 4, 0, false}}) {
    const Case c{shape, 2 * kKeyBlock + 70};
    const int64_t width = c.shape.qkv_width();
    const auto qkv = random_values<typename TypeParam::T>(c.sequence * width, 1);
    const auto dout = random_values<typename TypeParam::T>(c.sequence * c.shape.width(), 2);
    this->forward(c, qkv);
    const Matrix gradient = widen(this->backward(c, qkv, dout));
    for (int64_t first = 0; first < c.sequence; first += kKeyBlock) {
      // Queries, keys and values of one block of positions change together.
      const int64_t end = std::min(c.sequence, first + kKeyBlock);
      Matrix direction = widen(random_values<float>(c.sequence * width, 3));
      std::fill_n(direction.begin(), first * width, 0.0);
      std::fill(direction.begin() + end * width, direction.end(), 0.0);
      const Matrix slope = derivative({0.0}, [&](const Matrix& at) {
        Matrix moved = widen(qkv);
        for (size_t i = 0; i < moved.size(); ++i) moved[i] += at[0] * direction[i];
        return dot(reference::attention(c.shape, kTheta, c.sequence, moved), widen(dout));
      });
      EXPECT_NEAR(dot(gradient, direction), slope[0],
                  2 * kBound<typename TypeParam::T> * std::sqrt(dot(gradient, gradient)))
          << "positions from " << first << ", window " << shape.window << ", causal "
          << shape.causal;
    }
  }
}

TYPED_TEST(AttentionTest, LargeScoresStayFinite) {
  const Case c{{1, 1, 8}, 20};
  auto qkv = random_values<typename TypeParam::T>(c.sequence * c.shape.qkv_width(), 1);
  for (typename TypeParam::T& value : qkv) {
    value = rounded(static_cast<float>(30 * widened(value)), typename TypeParam::T());
  }
  this->forward(c, qkv);
  const auto gradient = this->backward(c, qkv, this->out_);
  for (const typename TypeParam::T value : this->out_) EXPECT_TRUE(std::isfinite(widened(value)));
  for (const typename TypeParam::T value : gradient) EXPECT_TRUE(std::isfinite(widened(value)));
}

TEST(Attend, RowsThatSeeNothingOfTheLastKeysKeepTheirResult) {
  const AttentionShape shape{1, 1, 8};
  constexpr int64_t kRows = 40, kFirst = kKeyBlock - 10, kSeen = kFirst + kRows;
  const int64_t d = shape.head_size, stride = shape.qkv_width();
  const auto qkv = random_values<float>(kSeen * stride, 1);
  const RopeTable rope(kSeen, d, RopeSpec{kTheta});
  AttentionScratch s(kSeen, d);
  const Kernels<float>& kernel = kernels<float>();
  kernel.rotate_load(Rotation::kForward, kRows, d, rope.cosine(kFirst), rope.sine(kFirst),
                     shape.score_scale(), &qkv[kFirst * stride], stride, s.query.data(), d);
  kernel.rotate_load(Rotation::kForward, kSeen, d, rope.cosine(0), rope.sine(0), 1.0f, &qkv[d],
                     stride, s.key.data(), d);
  kernel.load_rows(kSeen, d, nullptr, &qkv[2 * d], stride, s.value.data(), d);
  attend(shape, kRows, kFirst, s.query.data(), s.key.data(), s.value.data(), s.scores.data(),
         s.output.data(), s.inverse_sum.data(), s.log_sum_exp.data());
  std::vector<float> out(kRows * d);
  kernel.store_rows(kRows, d, s.inverse_sum.data(), s.output.data(), d, out.data(), d);
  const Matrix expected = reference::attention(shape, kTheta, kSeen, widen(qkv));
  EXPECT_LT(error(out, {expected.begin() + kFirst * d, expected.end()}), kBound<float>);
}

}  // namespace
}  // namespace thinwire::tensor
