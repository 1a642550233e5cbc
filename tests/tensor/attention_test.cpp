#include "thinwire/tensor/attention.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "tests/tensor/numbers.h"
#include "thinwire/tensor/reference.h"

namespace thinwire::tensor {
namespace {

constexpr double kTheta = 1000;

struct Case {
  AttentionShape shape;
  int64_t sequence;
};

template <typename T>
class AttentionTest : public testing::Test {
 protected:
  // Runs all key/value heads.
  void forward(const Case& c, const std::vector<T>& qkv) {
    out_.assign(c.sequence * c.shape.width(), T());
    log_sum_exp_.assign(c.sequence * c.shape.heads, 0);
    const RopeTable rope(c.sequence, c.shape.head_size, kTheta);
    AttentionScratch scratch(c.sequence, c.shape.head_size);
    for (int64_t head = 0; head < c.shape.kv_heads; ++head) {
      attention_forward<T>(c.shape, rope, c.sequence, head, qkv.data(), out_.data(),
                           log_sum_exp_.data(), scratch);
    }
  }
  std::vector<T> backward(const Case& c, std::vector<T> qkv, const std::vector<T>& dout) {
    const RopeTable rope(c.sequence, c.shape.head_size, kTheta);
    AttentionScratch scratch(c.sequence, c.shape.head_size);
    for (int64_t head = 0; head < c.shape.kv_heads; ++head) {
      attention_backward<T>(c.shape, rope, c.sequence, head, qkv.data(), out_.data(), dout.data(),
                            log_sum_exp_.data(), scratch);
    }
    return qkv;
  }

  std::vector<T> out_;
  std::vector<float> log_sum_exp_;
};

struct TypeNames {
  template <typename T>
  static std::string GetName(int) {
    return std::is_same_v<T, float> ? "fp32" : "bf16";
  }
};
using Operands = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(AttentionTest, Operands, TypeNames);

TYPED_TEST(AttentionTest, EqualsTheReference) {
  // Plain, grouped and multi-query; sequences of one token, up to, at and beyond a block.
  for (const Case& c :
       {Case{{2, 2, 8}, 1}, Case{{4, 2, 16}, 64}, Case{{3, 1, 6}, 65}, Case{{2, 2, 32}, 150}}) {
    const auto qkv = random_values<TypeParam>(c.sequence * c.shape.qkv_width(), 1);
    this->forward(c, qkv);
    const Matrix expected = reference::attention(c.shape, kTheta, c.sequence, widen(qkv));
    EXPECT_LT(error(this->out_, expected), kBound<TypeParam>) << c.sequence << " positions";
  }
}

TYPED_TEST(AttentionTest, GradientsEqualFiniteDifferences) {
  for (const Case& c : {Case{{2, 2, 4}, 9}, Case{{4, 2, 2}, 7}, Case{{2, 1, 2}, 67}}) {
    const auto qkv = random_values<TypeParam>(c.sequence * c.shape.qkv_width(), 1);
    const auto dout = random_values<TypeParam>(c.sequence * c.shape.width(), 2);
    this->forward(c, qkv);
    const Matrix expected = derivative(widen(qkv), [&](const Matrix& at) {
      return dot(reference::attention(c.shape, kTheta, c.sequence, at), widen(dout));
    });
    EXPECT_LT(error(this->backward(c, qkv, dout), expected), 2 * kBound<TypeParam>)
        << c.sequence << " positions";
  }
}

TYPED_TEST(AttentionTest, LargeScoresStayFinite) {
  const Case c{{1, 1, 8}, 20};
  auto qkv = random_values<TypeParam>(c.sequence * c.shape.qkv_width(), 1);
  for (TypeParam& value : qkv) {
    value = rounded(static_cast<float>(30 * widened(value)), TypeParam());
  }
  this->forward(c, qkv);
  const auto gradient = this->backward(c, qkv, this->out_);
  for (const TypeParam value : this->out_) EXPECT_TRUE(std::isfinite(widened(value)));
  for (const TypeParam value : gradient) EXPECT_TRUE(std::isfinite(widened(value)));
}

}  // namespace
}  // namespace thinwire::tensor
