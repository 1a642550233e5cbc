// The subspace of a matrix's gradient in which an optimizer works.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/base/tensor_view.h"

namespace thinwire::method {

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

}  // namespace thinwire::method
