// What a machine finds out about itself before it joins a run.
#include "thinwire/hosts/self_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"

namespace thinwire::hosts {
namespace {

class MemoryOfASite : public testing::Test {
 protected:
  static config::Recipe recipe_with(std::vector<std::string> fields) {
    fields.insert(fields.end(), {"model.hidden=1024", "model.layers=12", "model.heads=16",
                                 "llama.intermediate=4096", "model.vocab=32000", "train.batch=8",
                                 "train.workers=2", "train.sequence=128", "train.threads=1"});
    return method::load_recipe("", fields);
  }
  // Whether it fits into what one machine needs, less half of the optimizer's state.
  static bool fits(const config::Recipe& recipe, int ranks) {
    const auto tensors = method::tensors_of(recipe);
    const double allowed =
        method::run_memory(recipe, 1).total() - 0.5 * method::optimizer_bytes(recipe, tensors);
    try {
      check_cap(recipe, {.cap_bytes = allowed, .ranks = ranks});
      return true;
    } catch (const UsageError&) {
      return false;
    }
  }
};

TEST_F(MemoryOfASite, IsLessByTheStateThatOtherRanksHold) {
  const config::Recipe recipe = recipe_with({"sync.method=diloco"});
  EXPECT_FALSE(fits(recipe, 1));
  EXPECT_TRUE(fits(recipe, 4));
}

TEST_F(MemoryOfASite, IsNoLessWhereTheMethodsStateIsOnRankZero) {
  EXPECT_FALSE(fits(recipe_with({"sync.method=distro", "distro.update=adamw"}), 4));
}

// Parts of 16 MiB, for each rank, though the factors are smaller than one.
TEST_F(MemoryOfASite, WithAnAdapterHasRoomForFrozenWeightsOnTheirWay) {
  const config::Recipe recipe = recipe_with(
      {"sync.method=distro", "adapter.kind=lora", "adapter.rank=1", "train.init=MODEL"});
  const double alone = method::run_memory(recipe, 1).total();
  const double sent = 4.0 * (16 << 20);
  EXPECT_THROW(check_cap(recipe, {.cap_bytes = alone + 0.9 * sent, .ranks = 4}), UsageError);
  EXPECT_NO_THROW(check_cap(recipe, {.cap_bytes = alone + 1.1 * sent, .ranks = 4}));
}

}  // namespace
}  // namespace thinwire::hosts
