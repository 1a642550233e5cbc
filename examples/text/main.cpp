// Prepares the texts of a recipe, trains on them, shows what the model thinks of a sentence and how
// it goes on, and exports it for transformers.
//
//   text_example RECIPE SENTENCE [table.field=value ...]
#include <thinwire/exporting.h>
#include <thinwire/preparing.h>
#include <thinwire/trained_model.h>
#include <thinwire/training.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

int main(int count, char** words) try {
  if (count < 3)
    throw thinwire::UsageError("usage: text_example RECIPE SENTENCE [FIELD=VALUE ...]");
  const thinwire::Recipe recipe(words[1], std::vector<std::string>(words + 3, words + count));
  const std::string sentence = words[2];

  const thinwire::PreparedData data = thinwire::prepare_data(recipe);
  for (const auto& set : data.sets) {
    std::printf("%s: %llu tokens\n", set.name.c_str(), static_cast<unsigned long long>(set.tokens));
  }

  const thinwire::TrainingResult trained = thinwire::train_model(recipe);
  const thinwire::TrainedModel model(trained.folder);
  std::printf("log-likelihood %.4f\n", model.log_likelihood(sentence));
  std::printf("%s%s\n", sentence.c_str(),
              model.generate(sentence, {.tokens = 8, .temperature = 0}).c_str());

  // A second call of the same command finds the run finished and its export there.
  const std::filesystem::path exported =
      trained.folder / ("hugging_face-" + std::to_string(trained.steps));
  if (!std::filesystem::exists(exported)) thinwire::export_model(trained.folder, exported);
  std::printf("log-likelihood %.4f as %s has it\n",
              thinwire::TrainedModel(exported).log_likelihood(sentence), exported.c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
