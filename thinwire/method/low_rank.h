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

// What becomes of the moments when the basis is renewed.
enum class Moments : uint8_t { kKeep, kRotate };
inline constexpr std::string_view kMomentsNames[] = {"keep", "rotate"};
constexpr std::span<const std::string_view> names_of(Moments) { return kMomentsNames; }

// Sides of a matrix that are projected: the one that leaves less, or both.
enum class Sides : uint8_t { kOne, kTwo };
inline constexpr std::string_view kSidesNames[] = {"one", "two"};
constexpr std::span<const std::string_view> names_of(Sides) { return kSidesNames; }

// A matrix W [rows, columns] and the subspace in which it is updated. With one side the smaller
// dimension is projected, of a square matrix the rows: its gradient's core is P^T G, [rank,
// columns], where rows <= columns, else G Q, [rows, rank]. With two it is P^T G Q, [rank, rank].
struct LowRankShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t rank = 0;  // r; 0: the matrix is left to AdamW
  Sides sides = Sides::kOne;

  bool projects_rows() const { return sides == Sides::kTwo || rows <= columns; }
  bool projects_columns() const { return sides == Sides::kTwo || rows > columns; }
  Shape core() const {
    return {projects_rows() ? rank : rows, projects_columns() ? rank : columns};
  }
  Shape left_basis() const { return {rank, rows}; }      // P^T
  Shape right_basis() const { return {rank, columns}; }  // Q^T
};

// Fields that sections of such optimizers begin with.
struct LowRankFields {
  int64_t rank = 0;               // 0: a quarter of each matrix's smaller dimension
  config::StringList ranks = {};  // "PATTERN=RANK"
  int64_t refresh = 200;          // T
  void describe(config::Fields& fields);
};

// Of a tensor under these fields; rank 0 for all but the matrices of the blocks.
LowRankShape low_rank_shape(const LowRankFields& fields, const TensorSpec& tensor,
                            Sides sides = Sides::kOne);

// Throws UsageError where a rank does not fit its matrix, or a pattern matches none, with the names
// of the section's fields.
void check_ranks(std::string_view section, const LowRankFields& fields,
                 const config::Recipe& recipe);

// Throws UsageError where replicas share no gradient from which they could all take the same basis.
void check_shared_gradient(std::string_view optimizer, const config::Recipe& recipe);

// When the subspaces are renewed: each every so many steps, and never all in the same step.
class RefreshPlan {
 public:
  RefreshPlan(const LowRankFields& fields, std::span<const LowRankShape> shapes);
  // Whether the tensor's is renewed in this step, counted from 0. In step 0 none is: a subspace
  // that is not there yet is made by whoever finds it missing.
  bool due(size_t tensor, uint64_t step) const;
  // How many of the tensor's turns there were up to this step.
  uint64_t turns(size_t tensor, uint64_t step) const;

 private:
  uint64_t every_;
  std::vector<uint64_t> offsets_;
};

}  // namespace thinwire::method
