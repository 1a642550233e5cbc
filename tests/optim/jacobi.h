// Exact singular vectors, slowly: what approximate subspaces are held against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace thinwire::optim {

struct SingularVectors {
  std::vector<double> values;                // descending
  std::vector<std::vector<double>> vectors;  // one for each value, as long as a column
};

// Left singular vectors of a row-major matrix by one-sided Jacobi rotations of its rows in float64
// (Hestenes 1958), rows <= columns. The largest entry of each vector is positive.
inline SingularVectors left_singular_vectors(const std::vector<float>& matrix, int64_t rows,
                                             int64_t columns) {
  const auto n = static_cast<size_t>(rows);
  std::vector<std::vector<double>> a(n), u(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i) {
    const auto begin = matrix.begin() + static_cast<int64_t>(i) * columns;
    a[i].assign(begin, begin + columns);
    u[i][i] = 1;
  }
  const auto dot = [](const auto& x, const auto& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  const auto turn = [](auto& x, auto& y, double c, double s) {
    for (size_t k = 0; k < x.size(); ++k) {
      const double before = x[k];
      x[k] = c * before - s * y[k];
      y[k] = s * before + c * y[k];
    }
  };
  bool turned = true;
  for (int sweep = 0; turned && sweep < 60; ++sweep) {
    turned = false;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i + 1; j < n; ++j) {
        const double ij = dot(a[i], a[j]), ii = dot(a[i], a[i]), jj = dot(a[j], a[j]);
        if (std::fabs(ij) <= 1e-14 * std::sqrt(ii * jj)) continue;
        const double zeta = (jj - ii) / (2 * ij);
        const double t = std::copysign(1 / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta)), zeta);
        const double c = 1 / std::sqrt(1 + t * t);
        turn(a[i], a[j], c, c * t);
        turn(u[i], u[j], c, c * t);
        turned = true;
      }
    }
  }
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < n; ++i) order.emplace_back(-std::sqrt(dot(a[i], a[i])), i);
  std::ranges::sort(order);
  SingularVectors result;
  for (const auto& [value, i] : order) {
    const auto largest = std::ranges::max_element(u[i], {}, [](double x) { return std::fabs(x); });
    if (*largest < 0) {
      for (double& x : u[i]) x = -x;
    }
    result.values.push_back(-value);
    result.vectors.push_back(u[i]);
  }
  return result;
}

}  // namespace thinwire::optim
