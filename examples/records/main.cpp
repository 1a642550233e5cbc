// Shows what runs have left in their folders: losses, checkpoints, and how well each model predicts
// a text.
//
//   records_example TEXT RUN ...
#include <thinwire/checkpoints.h>
#include <thinwire/evaluation.h>
#include <thinwire/finished_runs.h>
#include <thinwire/run_history.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

int main(int count, char** words) try {
  if (count < 3) throw thinwire::UsageError("usage: records_example TEXT RUN ...");
  const thinwire::FoundRuns found =
      thinwire::find_runs(std::vector<std::filesystem::path>(words + 2, words + count));
  for (const std::string& other : found.left_out) std::printf("left out: %s\n", other.c_str());
  for (const thinwire::FinishedRun& run : found.finished) {
    const auto history = thinwire::read_run_history(run.folder);
    std::printf("%s: %s, loss %.4f -> %.4f in %zu recorded steps\n", run.folder.c_str(),
                run.method.c_str(), history.steps.front().loss, history.steps.back().loss,
                history.steps.size());
    for (const auto& folder : thinwire::list_checkpoints(run.folder)) {
      const thinwire::CheckpointFacts facts = thinwire::read_checkpoint(folder);
      std::printf("  checkpoint after step %llu, undamaged\n",
                  static_cast<unsigned long long>(facts.step));
    }
    thinwire::EvaluationOptions options;
    options.texts = {words[1]};
    for (const auto& result : thinwire::evaluate_model(run.folder, {"perplexity"}, options)) {
      for (const auto& metric : result.metrics) {
        std::printf("  %s %.4f\n", metric.name.c_str(), metric.value);
      }
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
