// Trains a recipe and shows what happens. Ctrl-C stops it after a checkpoint; the same command goes
// on.
//
//   train_example RECIPE [table.field=value ...]
#include <thinwire/training.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace {
std::atomic<bool> stop = false;
}  // namespace

int main(int count, char** words) try {
  std::signal(SIGINT, [](int) { stop = true; });
  const thinwire::Recipe recipe(
      count > 1 ? words[1] : "",
      std::vector<std::string>(words + (count > 1 ? 2 : 1), words + count));
  thinwire::TrainingOptions options;
  options.stop = &stop;
  options.on_step = [](const auto& step) {
    if (step.step % 10 == 0) std::printf("step %ld: loss %.3f\n", long(step.step), step.loss);
  };
  options.on_evaluation = [](const auto& found) {
    std::printf("step %ld: %s %.4f\n", long(found.step), found.name.c_str(), found.loss);
  };
  options.on_checkpoint = [](const auto& written) {
    std::printf("checkpoint %s\n", written.folder.c_str());
  };
  const thinwire::TrainingResult result = thinwire::train_model(recipe, options);
  std::printf("%s after step %ld; weights %s\n", result.finished ? "finished" : "stopped",
              long(result.steps), result.digest.c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
