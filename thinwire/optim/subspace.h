// Subspaces of a matrix's gradient in which low-rank optimizers work: projecting into them, lifting
// out of them, and renewing them by warm-started subspace iteration. All products have a fixed
// order of sums, so replicas that are fed the same gradients hold the same bases, bit for bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/threads.h"
#include "thinwire/method/optimizers/low_rank.h"
#include "thinwire/optim/average.h"

namespace thinwire::optim {

// The rows are orthonormal basis vectors. A side that is not projected has none.
struct Bases {
  std::span<float> left;   // P^T [rank, rows]
  std::span<float> right;  // Q^T [rank, columns]
  // Whether the bases have been computed. State is zero at first, and after a member was inactive.
  bool present() const;
};

// Operations on subspaces, with the working memory they need. The memory grows with the largest
// matrix so far.
class Subspace {
 public:
  // core = factor * P^T G Q; with one side, factor * P^T G or factor * G Q.
  void project(const method::LowRankShape& shape, const Bases& bases,
               std::span<const float> gradient, float factor, std::span<float> core,
               ThreadPool& threads);

  // The factors of P core Q^T = left [rows, rank] right [rank, columns]; with one side, of P core
  // or core Q^T. Valid until the next call.
  struct Factors {
    const float* left;
    const float* right;
  };
  Factors factors(const method::LowRankShape& shape, const Bases& bases,
                  std::span<const float> core, ThreadPool& threads);

  // full [rows, columns] = P core Q^T + kept * full; with one side, P core or core Q^T replaces the
  // first term.
  void lift(const method::LowRankShape& shape, const Bases& bases, std::span<const float> core,
            std::span<float> full, ThreadPool& threads, float kept = 0);

  // Renews the bases towards the gradient's leading singular vectors by one step of subspace
  // iteration. With one side that is P = orth(G G^T P) or Q = orth(G^T G Q); with two sides it is
  // P = orth(G Q) and Q = orth(G^T P), both computed from the previous bases. (If Q were computed
  // from the new P, the core would be triangular up to rounding errors, which Adam would blow up.)
  // A basis vector keeps its place and sign. Bases that are not present start from signs drawn from
  // `seed` and take method::kFirstIterations steps. A gradient of zeros changes nothing.
  //
  // With `average` the gradient is the mean over several workers, of which `gradient` is this
  // worker's: the two products of a step of iteration are averaged, [rank, columns] and [rows,
  // rank] values, never the gradient itself. All workers get the same bases. Where the mean is
  // zero, bases that are not present become random.
  void refresh(const method::LowRankShape& shape, const Bases& bases,
               std::span<const float> gradient, uint64_t seed, ThreadPool& threads,
               const Average& average = {});

  // Converts the core of a matrix to the renewed bases: P'^T P core Q^T Q'. If `squared`, the two
  // change-of-basis matrices are squared element by element, which is how variances change if the
  // coordinates are uncorrelated.
  void rotate(const method::LowRankShape& shape, const Bases& before, const Bases& now,
              bool squared, std::span<float> core, ThreadPool& threads);

 private:
  // out [rows, rank] = factor * G basis^T, where basis is [rank, columns].
  void times_basis(const method::LowRankShape& shape, const float* gradient, const float* basis,
                   float factor, float* out, ThreadPool& threads);
  void draw(const method::LowRankShape& shape, const Bases& bases, uint64_t seed,
            const Average& average);
  void renew_left(const method::LowRankShape& shape, const Bases& bases, const float* gradient,
                  uint64_t seed, ThreadPool& threads, const Average& average);
  // `left` is the left basis before renewal.
  void renew_right(const method::LowRankShape& shape, const Bases& bases, const float* left,
                   const float* gradient, uint64_t seed, ThreadPool& threads,
                   const Average& average);
  // Computes now before^T [rank, rank], squared element by element if `squared`.
  void change_of_basis(int64_t rank, int64_t length, const float* before, const float* now,
                       bool squared, ThreadPool& threads);

  std::vector<float> transposed_, half_, change_, old_left_;
};

}  // namespace thinwire::optim
