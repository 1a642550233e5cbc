#include "tests/tensor/reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "thinwire/base/rng.h"

namespace thinwire::tensor::reference {
namespace {

// Row of one head at one position, rotated by its position.
std::vector<double> rotated(const double* x, int64_t size, int64_t position, double theta) {
  std::vector<double> out(static_cast<size_t>(size));
  const int64_t half = size / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(size);
    const double angle = static_cast<double>(position) * std::pow(theta, exponent);
    out[i] = x[i] * std::cos(angle) - x[i + half] * std::sin(angle);
    out[i + half] = x[i + half] * std::cos(angle) + x[i] * std::sin(angle);
  }
  return out;
}

double dot(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

Matrix gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Matrix& A,
            const Matrix& B) {
  Matrix C(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p) {
        C[i * n + j] += (a == Transpose::kNo ? A[i * k + p] : A[p * m + i]) *
                        (b == Transpose::kNo ? B[p * n + j] : B[j * k + p]);
      }
    }
  }
  return C;
}

Matrix rmsnorm(int64_t width, const Matrix& x, const Matrix& weight, double eps) {
  Matrix out(x.size());
  for (size_t row = 0; row < x.size(); row += width) {
    const double square = dot(&x[row], &x[row], width);
    const double rstd = 1.0 / std::sqrt(square / static_cast<double>(width) + eps);
    for (int64_t i = 0; i < width; ++i) out[row + i] = x[row + i] * rstd * weight[i];
  }
  return out;
}

Matrix layer_norm(int64_t width, const Matrix& x, const Matrix& weight, const Matrix& bias,
                  double eps) {
  Matrix out(x.size());
  for (size_t row = 0; row < x.size(); row += width) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < width; ++i) mean += x[row + i] / static_cast<double>(width);
    for (int64_t i = 0; i < width; ++i) {
      variance += (x[row + i] - mean) * (x[row + i] - mean) / static_cast<double>(width);
    }
    for (int64_t i = 0; i < width; ++i) {
      out[row + i] = (x[row + i] - mean) / std::sqrt(variance + eps) * weight[i] + bias[i];
    }
  }
  return out;
}

Matrix gelu(const Matrix& x) {
  Matrix out = x;
  for (double& value : out) value *= 0.5 * (1 + std::erf(value / std::sqrt(2.0)));
  return out;
}

Matrix swiglu(int64_t width, const Matrix& gate_up) {
  Matrix out(gate_up.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t row = i / width, column = i % width;
    const double gate = gate_up[row * 2 * width + column];
    const double up = gate_up[row * 2 * width + width + column];
    out[i] = gate / (1.0 + std::exp(-gate)) * up;
  }
  return out;
}

Matrix attention(const AttentionShape& shape, double theta, int64_t sequence, const Matrix& qkv) {
  const int64_t d = shape.head_size, width = shape.qkv_width();
  Matrix out(static_cast<size_t>(sequence * shape.width()));
  for (int64_t head = 0; head < shape.heads; ++head) {
    const int64_t key_column = (shape.heads + head / shape.group()) * d;
    const int64_t value_column = key_column + shape.kv_heads * d;
    std::vector<std::vector<double>> keys;
    for (int64_t s = 0; s < sequence; ++s) {
      keys.push_back(rotated(&qkv[s * width + key_column], d, s, theta));
    }
    for (int64_t t = 0; t < sequence; ++t) {
      const auto query = rotated(&qkv[t * width + head * d], d, t, theta);
      std::vector<double> weights;
      double total = 0;
      const int64_t end = shape.seen_end(t + 1, sequence);
      for (int64_t s = shape.first_seen(t); s < end; ++s) {
        weights.push_back(std::exp(dot(query.data(), keys[s].data(), d) / std::sqrt(1.0 * d)));
        total += weights.back();
      }
      const int64_t first = shape.first_seen(t);
      for (int64_t s = first; s < end; ++s) {
        for (int64_t i = 0; i < d; ++i) {
          out[t * shape.width() + head * d + i] +=
              weights[s - first] / total * qkv[s * width + value_column + i];
        }
      }
    }
  }
  return out;
}

double linear_cross_entropy(int64_t width, int64_t vocabulary, const Matrix& x,
                            const Matrix& weight, std::span<const int32_t> targets,
                            std::span<const float> factors) {
  double sum = 0;
  for (size_t row = 0; row < targets.size(); ++row) {
    double total = 0;
    for (int64_t v = 0; v < vocabulary; ++v) {
      total += std::exp(dot(&x[row * width], &weight[v * width], width));
    }
    const double loss =
        std::log(total) - dot(&x[row * width], &weight[targets[row] * width], width);
    sum += (factors.empty() ? 1.0 : factors[row]) * loss;
  }
  return sum;
}

namespace {

constexpr uint32_t kMagnitudeMask = 0x7fffffff;
constexpr int kBias = 15;  // of a code's exponent: its highest binade is the block's

int dropped_bits(BlockCode code) { return 23 - mantissa_bits(code); }

}  // namespace

uint32_t random_bits(uint64_t key, int64_t index) {
  const auto block = static_cast<uint64_t>(index / kStateBlock);
  const uint64_t of_block = mix_bits(key + block * 0x9e3779b97f4a7c15u);
  uint32_t x = static_cast<uint32_t>(of_block) + static_cast<uint32_t>(index % kStateBlock);
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15) ^ static_cast<uint32_t>(of_block >> 32)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

Bf16 round_stochastically(float value, uint32_t random) {
  if (!std::isfinite(value)) return to_bf16(value);
  return {static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + (random >> 16)) >> 16)};
}

uint32_t block_exponent(BlockCode code, std::span<const float> values) {
  uint32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & kMagnitudeMask);
  }
  // Rounded up, so that no value of the block rounds beyond the highest code.
  const uint32_t exponent = (largest + (1u << dropped_bits(code)) - 1) >> 23;
  if (exponent < kMinBlockExponent) return 0;
  return std::min(exponent, kMaxBlockExponent + 1);
}

uint8_t encode(BlockCode code, float value, uint32_t exponent, uint32_t random) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & kMagnitudeMask;
  const int field = static_cast<int>(magnitude >> 23) - static_cast<int>(exponent) + kBias;
  const int shift = dropped_bits(code) + std::max(0, 1 - field);
  uint32_t result = 0;
  if (shift <= 31) {
    const uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
    result = (significand + (random >> (32 - shift))) >> shift;
    result += static_cast<uint32_t>(std::max(field - 1, 0)) << mantissa_bits(code);
  }
  if (code == BlockCode::kSigned) return static_cast<uint8_t>(result | bits >> 31 << 7);
  return static_cast<uint8_t>(magnitude == 0 ? 0 : std::max(result, 1u));
}

float decode(BlockCode code, uint8_t bits, uint32_t exponent) {
  if (exponent == 0) return 0;
  if (exponent < kMinBlockExponent || exponent > kMaxBlockExponent) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  const bool is_signed = code == BlockCode::kSigned;
  const int magnitude = is_signed ? bits & 0x7f : bits;
  const int mantissa = mantissa_bits(code);
  const int field = magnitude >> mantissa;
  const int rest = magnitude - (field << mantissa);
  const int significand = field == 0 ? rest : rest + (1 << mantissa);
  const int scale = static_cast<int>(exponent) - 127 - kBias + std::max(field, 1) - mantissa;
  const float value = std::ldexp(static_cast<float>(significand), scale);
  return is_signed && (bits & 0x80) != 0 ? -value : value;
}

namespace {

// The index of the nearest of `values`.
uint8_t nearest(std::span<const float> values, float value) {
  uint8_t index = 0;
  while (index + size_t{1} < values.size() && value > (values[index] + values[index + 1u]) / 2) {
    ++index;
  }
  return index;
}

template <typename T>
void append(std::vector<uint8_t>& to, const T& value) {
  const auto bytes = std::bit_cast<std::array<uint8_t, sizeof(T)>>(value);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

float float_at(std::span<const uint8_t> bytes, int64_t begin) {
  std::array<uint8_t, sizeof(float)> four = {};
  std::copy_n(bytes.begin() + begin, four.size(), four.begin());
  return std::bit_cast<float>(four);
}

}  // namespace

std::vector<uint8_t> encode_nf4(std::span<const float> values) {
  const auto count = static_cast<int64_t>(values.size()), blocks = nf4_blocks(count);
  std::vector<float> scales, of_scales(static_cast<size_t>(nf4_scale_blocks(count)));
  std::vector<uint8_t> bytes(static_cast<size_t>(kNf4Block / 2 * blocks));
  double sum = 0;
  for (int64_t begin = 0; begin < count; begin += kNf4Block) {
    float scale = 0;
    for (int64_t i = begin; i < std::min(begin + kNf4Block, count); ++i) {
      scale = std::max(scale, std::fabs(values[i]));
    }
    for (int64_t i = begin; i < begin + kNf4Block; ++i) {
      const float value = i < count && scale > 0 ? values[i] / scale : 0;
      bytes[i / 2] |= nearest(nf4_values(), value) << (i % 2 == 0 ? 4 : 0);
    }
    scales.push_back(scale);
    sum += scale;
  }
  const auto mean = static_cast<float>(sum / static_cast<double>(blocks));
  for (size_t i = 0; i < scales.size(); ++i) {
    float& widest = of_scales[i / kNf4ScaleBlock];
    widest = std::max(widest, std::fabs(scales[i] - mean));
  }
  for (const float scale : of_scales) append(bytes, scale);
  append(bytes, mean);
  for (size_t i = 0; i < scales.size(); ++i) {
    const float widest = of_scales[i / kNf4ScaleBlock];
    bytes.push_back(nearest(nf4_scale_values(), widest > 0 ? (scales[i] - mean) / widest : 0));
  }
  bytes.resize(static_cast<size_t>(nf4_bytes(count)));
  return bytes;
}

std::vector<float> decode_nf4(std::span<const uint8_t> encoded, int64_t count) {
  const int64_t of_scales = kNf4Block / 2 * nf4_blocks(count);
  const int64_t mean = of_scales + 4 * nf4_scale_blocks(count), codes = mean + 4;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t block = i / kNf4Block;
    const float of_scale = float_at(encoded, of_scales + 4 * (block / kNf4ScaleBlock));
    const float scale =
        float_at(encoded, mean) + of_scale * nf4_scale_values()[encoded[codes + block]];
    const int code = i % 2 == 0 ? encoded[i / 2] >> 4 : encoded[i / 2] & 15;
    values.push_back(nf4_values()[static_cast<size_t>(code)] * scale);
  }
  return values;
}

}  // namespace thinwire::tensor::reference
