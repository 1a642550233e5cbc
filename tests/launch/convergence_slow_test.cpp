// Both methods learn: the recipe `tiny`, on text with something to learn, for long enough to tell.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/tiny_run.h"
#include "thinwire/launch/train.h"
#include "thinwire/method/registry.h"

namespace thinwire::launch {
namespace {

TEST(Convergence, BothMethodsLearnAndDistroStaysNearAdamW) {
  const fs::path folder = test_folder();
  prepare_tiny_corpus(folder);
  std::map<std::string, events::Summary> summaries;
  for (const std::string method : {"allreduce", "distro"}) {
    const config::Recipe recipe = method::load_recipe(
        tests::source_file("recipes/tiny.toml"),
        std::vector<std::string>{"data.dir=" + (folder / "tokens").string(),
                                 "run.dir=" + (folder / method).string(), "train.steps=150",
                                 "schedule.warmup=15", "sync.method=" + method});
    summaries[method] = train(recipe, {}).summary;
  }
  // Six words in random order cost ln 6 = 1.79 nats a word of 5.5 bytes: 0.33 nats a byte.
  const double adamw = summaries["allreduce"].val_loss["validation"];
  EXPECT_LT(adamw, 0.6);
  EXPECT_LT(summaries["distro"].val_loss["validation"], adamw + 0.2);
  EXPECT_GT(summaries["distro"].ratio_ring_sent, 100);
}

}  // namespace
}  // namespace thinwire::launch
