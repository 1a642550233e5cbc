#include "thinwire/tensor/kernels/reference.h"

#include <cmath>

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

}  // namespace thinwire::tensor::reference
