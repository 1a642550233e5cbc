// What optimizers that work in a low-rank subspace of a matrix's gradient have in common: which
// matrices they take, at which rank, from which side, and how often the subspace is renewed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/fields.h"

namespace thinwire::config {
struct Recipe;
}

namespace thinwire::method {

// The subspace of a matrix's gradient in which an optimizer works.

// Which sides of a matrix are projected: the smaller dimension only, or both.
enum class Sides : uint8_t { kOne, kTwo };
inline constexpr std::string_view kSidesNames[] = {"one", "two"};
constexpr std::span<const std::string_view> names_of(Sides) { return kSidesNames; }

// Where the basis vectors come from: the leading directions of the gradients, or signs drawn from
// the run's seed, the tensor and the number of renewals, which are the same on all workers,
// whatever their gradients.
enum class Basis : uint8_t { kGradient, kSeeded };
inline constexpr std::string_view kBasisNames[] = {"gradient", "seeded"};
constexpr std::span<const std::string_view> names_of(Basis) { return kBasisNames; }

// A matrix W [rows, columns] and the subspace in which it is updated. With one side, the smaller
// dimension is projected (the rows of a square matrix): the core of its gradient is P^T G, [rank,
// columns], if rows <= columns, else G Q, [rows, rank]. With two, it is P^T G Q, [rank, rank].
struct LowRankShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t rank = 0;  // r; 0: the matrix is left to AdamW
  Sides sides = Sides::kOne;
  int64_t refresh = 0;  // T, steps between renewals of the bases
  Basis basis = Basis::kGradient;

  bool projects_rows() const { return sides == Sides::kTwo || rows <= columns; }
  bool projects_columns() const { return sides == Sides::kTwo || rows > columns; }
  Shape core() const {
    return {projects_rows() ? rank : rows, projects_columns() ? rank : columns};
  }
  Shape left_basis() const { return {rank, rows}; }      // P^T
  Shape right_basis() const { return {rank, columns}; }  // Q^T
  // The basis of the one side which is projected.
  Shape one_basis() const { return projects_rows() ? left_basis() : right_basis(); }
};

// What happens to the moments when the basis is renewed.
enum class Moments : uint8_t { kKeep, kRotate };
inline constexpr std::string_view kMomentsNames[] = {"keep", "rotate"};
constexpr std::span<const std::string_view> names_of(Moments) { return kMomentsNames; }

// The fields that the sections of such optimizers begin with.
struct LowRankFields {
  int64_t rank = 0;               // 0: a quarter of each matrix's smaller dimension
  config::StringList ranks = {};  // "PATTERN=RANK"
  int64_t refresh = 200;          // T
  Basis basis = Basis::kGradient;
  // Lists all but `basis`, which not all of them have.
  void describe(config::Fields& fields);
};

// List the fields of Adam in the subspace: the factor of the matrices' steps, and what happens to
// the moments when the basis is renewed; or the latter alone.
void describe_subspace_step(config::Fields& fields, double& scale, Moments& moments);
void describe_moments(config::Fields& fields, Moments& moments);

// The shape for a tensor under these fields; rank 0 for all but the matrices of the blocks.
LowRankShape low_rank_shape(const LowRankFields& fields, const TensorSpec& tensor,
                            Sides sides = Sides::kOne);

// Throws UsageError that names the section's field if a rank does not fit its matrix or a pattern
// matches no matrix.
void check_ranks(std::string_view section, const LowRankFields& fields,
                 const config::Recipe& recipe);

// Throws UsageError if replicas share no gradient from which all could derive the same basis or
// scales.
void check_shared_gradient(std::string_view optimizer, const config::Recipe& recipe);

// Steps of subspace iteration that give a matrix its first bases; a renewal takes one.
inline constexpr int kFirstIterations = 4;

// When the subspaces are renewed: each every `refresh` steps, staggered over the matrices.
class RefreshPlan {
 public:
  RefreshPlan(const LowRankFields& fields, std::span<const LowRankShape> shapes);
  // Whether the tensor's subspace is renewed in this step, counted from 0. None is in step 0: a
  // subspace that does not exist yet is created when it is first needed.
  bool due(size_t tensor, uint64_t step) const;
  // How often the tensor's subspace has been renewed up to and including this step.
  uint64_t renewals(size_t tensor, uint64_t step) const;
  // The same before this step: the number of the bases that it uses.
  uint64_t renewals_before(size_t tensor, uint64_t step) const;

 private:
  uint64_t every_;
  std::vector<uint64_t> offsets_;
};

}  // namespace thinwire::method
