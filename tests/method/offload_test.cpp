
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/errors.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using testing::AllOf;
using testing::HasSubstr;

config::Recipe recipe_of(std::vector<std::string> fields) {
  fields.insert(fields.begin(), {"model.vocab=4096", "train.workers=1"});
  return load_recipe({}, fields);
}

double part(const config::Recipe& recipe, const std::string& name) {
  for (const MemoryPart& part : memory_parts(recipe, 1)) {
    if (part.name == name) return part.bytes;
  }
  return -1;
}

TEST(OffloadMemory, AWindowReplacesWeightsAndState) {
  for (const char* method : {"allreduce", "diloco"}) {
    const std::string sync = std::string("sync.method=") + method;
    const config::Recipe before = recipe_of({sync});
    const config::Recipe after = recipe_of({sync, "train.offload=true"});
    const auto tensors = tensors_of(after);
    EXPECT_EQ(part(before, "window of files"), 0);
    EXPECT_EQ(part(after, "window of files"), offload_window(after, tensors));
    const double outer = outer_bytes(after, tensors);
    EXPECT_EQ(outer, method == std::string("diloco") ? 2 * part(before, "weights") : 0);
    const double state = optimizer_state(after, tensors).consensus + outer;
    EXPECT_EQ(part(after, "optimizer and method"), part(before, "optimizer and method") - state);
    EXPECT_EQ(part(after, "gradients"), part(before, "gradients"));
    EXPECT_EQ(offloaded_bytes(after, tensors), part(before, "weights") + state);
    EXPECT_LT(offload_window(after, tensors), offloaded_bytes(after, tensors) / 2);
  }
}

TEST(OffloadMemory, WeightsThatAreExchangedAreInMemory) {
  EXPECT_EQ(part(recipe_of({"train.offload=true"}), "weights"), 0);
  EXPECT_EQ(part(recipe_of({"train.offload=true", "sync.method=diloco"}), "weights"),
            part(recipe_of({}), "weights"));
}

// fp32 weights, and two moments.
TEST(OffloadMemory, TheWindowHoldsTheLargestTensorAndHalfAsMuch) {
  const config::Recipe recipe = recipe_of({"train.offload=true", "model.hidden=256"});
  EXPECT_EQ(offload_window(recipe, tensors_of(recipe)), 1.5 * 4096 * 256 * 12);
}

// All weights of the head, but two moments of half of it.
TEST(OffloadMemory, TheWindowHoldsTheStateOfOneSlab) {
  const config::Recipe recipe =
      recipe_of({"train.offload=true", "model.hidden=256", "train.update=layer", "optim.clip=0",
                 "model.vocab_slabs=2"});
  EXPECT_EQ(offload_window(recipe, tensors_of(recipe)), 1.5 * 4096 * 256 * (4 + 8 / 2));
}

TEST(OffloadMemory, ProductsInBf16KeepTheirCopy) {
  const config::Recipe both = recipe_of({"train.offload=true", "train.precision=bf16"});
  const std::vector<TensorSpec> tensors = tensors_of(both);
  const auto multiplied = static_cast<double>(arena_elements(std::span(tensors).subspan(1)));
  EXPECT_EQ(part(both, "weights"), 2 * multiplied);
}

TEST(OffloadMemory, ADeviceIsRefused) {
  EXPECT_THAT(
      tests::error_of([] {
        recipe_of({"train.offload=true", "train.device=cuda"});
      }),
      AllOf(HasSubstr("[train] offload = true needs device = \"cpu\""), HasSubstr("\"cuda\"")));
}

}  // namespace
}  // namespace thinwire::method
