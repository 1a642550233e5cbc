#include "thinwire/serving.h"

#include <utility>

#include "thinwire/base/mutex.h"
#include "thinwire/face_spec/recipe_parts.h"
#include "thinwire/hosts/serve_run.h"
#include "thinwire/hosts/served_run.h"

namespace thinwire {

ServingResult serve_run(const Recipe& recipe, const ServingOptions& options) {
  Mutex mutex;
  const events::MessageSink tell = [&](std::string_view line) {
    const Lock lock(mutex);
    if (options.on_message) options.on_message(line);
  };
  config::Recipe served = recipe.parts().recipe;
  served.run.dir = hosts::served_folder(served);
  ServingResult result;
  result.folder = served.run.dir;
  hosts::ServeOptions serve;
  serve.listen = options.listen;
  serve.address = options.address;
  serve.mailbox = options.mailbox;
  serve.weights = options.weights;
  serve.token_days = options.token_days;
  serve.stop = options.stop;
  serve.display = {.message = tell, .needed = tell, .progress = false};
  serve.on_ready = options.on_ready;
  hosts::ServeResult ended = hosts::serve_run(std::move(served), serve);
  result.finished = ended.outcome != hosts::ServeOutcome::kStopped;
  result.round = ended.round;
  result.train_loss = ended.summary.train_loss;
  result.losses = std::move(ended.summary.val_loss);
  result.bytes_sent_per_step = ended.summary.bytes_sent_per_worker_step;
  result.digest = std::move(ended.summary.digest);
  return result;
}

}  // namespace thinwire
