#include "thinwire/training.h"

#include <optional>
#include <utility>

#include "thinwire/face_run/run_parts.h"
#include "thinwire/face_spec/recipe_parts.h"
#include "thinwire/launch/train.h"

namespace thinwire {

TrainingResult train_model(const Recipe& recipe, const TrainingOptions& options) {
  std::optional<train::OwnModel> own;
  if (options.own_model != nullptr) own.emplace(inner_model(*options.own_model));
  Callbacks callbacks(options);
  launch::TrainOptions run;
  run.restart = options.restart;
  run.stop = options.stop;
  run.listen = [&](const config::Recipe&, int64_t) { return &callbacks; };
  run.display = callbacks.display();
  run.own_model = own ? &*own : nullptr;
  launch::TrainResult trained = launch::train(recipe.parts().recipe, run);
  TrainingResult result;
  result.steps = trained.step;
  result.folder = recipe.parts().recipe.run.dir;
  result.finished = trained.outcome != launch::Outcome::kStopped;
  result.train_loss = trained.summary.train_loss;
  result.losses = std::move(trained.summary.val_loss);
  result.bytes_sent_per_step = trained.summary.bytes_sent_per_worker_step;
  result.digest = std::move(trained.summary.digest);
  return result;
}

}  // namespace thinwire
