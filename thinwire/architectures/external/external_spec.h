// A model that a program which embeds Thinwire brings itself (docs/embedding.md). The recipe has
// its tensors; what is computed with them, and what a row is, only the program knows.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/tensor_view.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire {

// As the lines of external.tensors name them.
inline std::span<const std::string_view> names_of(TensorRole) {
  static constexpr std::array<std::string_view, 5> kNames = {"embedding", "matrix", "norm", "bias",
                                                             "head"};
  return kNames;
}

}  // namespace thinwire

namespace thinwire::method {

// The table [external].
struct ExternalOptions final : ArchitectureSectionOf<ExternalOptions> {
  // "NAME SHAPE" or "NAME SHAPE ROLE", such as "hidden.weight 16x4" and "hidden.bias 16 bias".
  config::StringList tensors;
  void describe(config::Fields& fields) override;
};

// In the table of architectures, but none that this program can compute (all_architectures).
extern const Architecture kExternal;

// The tensor that a line describes. Throws UsageError for a line that is none.
TensorSpec external_tensor(const std::string& line);

// Whether the recipe's model is one.
bool is_external(const config::Recipe& recipe);

}  // namespace thinwire::method
