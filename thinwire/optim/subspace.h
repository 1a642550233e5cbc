// Subspaces of a matrix's gradient in which low-rank optimizers work: projecting into them, lifting
// out of them, and renewing them by warm-started subspace iteration. All products have a fixed
// order of sums, so replicas that are fed the same gradients hold the same bases, bit for bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/threads.h"
#include "thinwire/method/optimizers/low_rank.h"
#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// Orthonormal bases by Gram-Schmidt with a fixed order of sums, so that the bits are the same on
// every instruction set.

// Makes the rows of `rows` [count, length], count <= length, orthonormal, one after the other. Row
// i becomes its part orthogonal to the earlier rows, divided by the norm of that part, so it keeps
// its sign. (This is the Q of a QR decomposition of the transpose with a positive diagonal in R.)
// Rows are projected in blocks, by matrix products. A block of which a row loses a third of its
// norm or more is projected twice, which makes the rows orthogonal up to rounding (Giraud et al.
// 2005, "The loss of orthogonality in the Gram-Schmidt orthogonalization process"). A row whose
// orthogonal part is no larger than rounding is replaced by signs drawn from `seed`. The bits are
// the same for any number of threads.
void orthonormalise(std::span<float> rows, int64_t count, int64_t length, uint64_t seed,
                    ThreadPool& threads);

// Divides the values by their largest magnitude, which is returned; if that is 0, nothing changes.
float normalise(std::span<float> values);

// Fills `values` with 1 and -1, chosen by seed and position alone.
void draw_signs(std::span<float> values, uint64_t seed);

// The rows are basis vectors, orthonormal unless they are drawn (draw_seeded). A side that is not
// projected has none.
struct Bases {
  std::span<float> left;   // P^T [rank, rows]
  std::span<float> right;  // Q^T [rank, columns]
  // Whether the bases have been computed. State is zero at first, and after a member was inactive.
  bool present() const;
};

// Bases of signs times 1/sqrt(rank), chosen by `seed` alone. P P^T is the identity in the mean over
// seeds, so that what is projected and lifted again is right on average.
void draw_seeded(const method::LowRankShape& shape, const Bases& bases, uint64_t seed);

// Operations on subspaces, with the working memory they need. The memory grows with the largest
// matrix so far.
class Subspace {
 public:
  // Indices first, first + step, ... of a dimension.
  struct Part {
    int64_t first, step, count;
  };
  // A renewal sums over at least this many indices for each basis vector, if there are as many.
  static constexpr int64_t kTakenPerRank = 2;

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

  struct Renewal {
    std::span<const float> gradient;
    // What project() makes of the gradient and the bases with factor 1; not read with two sides.
    std::span<const float> core;
    uint64_t seed = 0;
    uint64_t number = 0;  // of the matrix's renewal, which chooses the part
  };
  // Renews the bases towards the gradient's leading singular vectors by one step of subspace
  // iteration. With one side that is P = orth(G core^T) or Q = orth(G^T core), in which the sum
  // over the larger dimension runs over every n-th index only, n = larger dimension / (2 rank),
  // beginning with the number modulo n: about twice as many terms as the rank. With two sides it is
  // P = orth(G Q) and Q = orth(G^T P), both computed from the previous bases. (If Q were computed
  // from the new P, the core would be triangular up to rounding errors, which Adam would blow up.)
  // A basis vector keeps its place and sign. A gradient of zeros changes nothing.
  //
  // With `average` the gradient is the mean over several workers, of which `gradient` and `core`
  // are this worker's: the two products of a step of iteration, of which one is the core, are
  // averaged, [rank, columns] and [rows, rank] values, never the gradient itself. All workers get
  // the same bases.
  void renew(const method::LowRankShape& shape, const Bases& bases, const Renewal& renewal,
             ThreadPool& threads, const Average& average = {});

  // The first bases: method::kFirstIterations such steps, with whole sums, from signs drawn from
  // `seed`. A gradient of zeros leaves them zero; with `average` they become random where the mean
  // is zero.
  void start(const method::LowRankShape& shape, const Bases& bases, std::span<const float> gradient,
             uint64_t seed, ThreadPool& threads, const Average& average = {});

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
            ThreadPool& threads, const Average& average);
  std::span<const float> mean_core(const Renewal& renewal, const Average& average);
  void iterate(const method::LowRankShape& shape, const Bases& bases, const Renewal& renewal,
               const Part& part, ThreadPool& threads, const Average& average);
  void renew_left(const method::LowRankShape& shape, const Bases& bases, const Renewal& renewal,
                  const Part& part, ThreadPool& threads, const Average& average);
  // `left` is the left basis before renewal.
  void renew_right(const method::LowRankShape& shape, const Bases& bases, const float* left,
                   const Renewal& renewal, const Part& part, ThreadPool& threads,
                   const Average& average);
  // Computes now before^T [rank, rank], squared element by element if `squared`.
  void change_of_basis(int64_t rank, int64_t length, const float* before, const float* now,
                       bool squared, ThreadPool& threads);

  std::vector<float> transposed_, half_, change_, old_left_, core_;
};

}  // namespace thinwire::optim
