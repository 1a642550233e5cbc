#include "thinwire/launch/beginning.h"

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/train/initial_model.h"

namespace thinwire::launch {
namespace {

// Throws Error if factors would continue with a base other than the one they were trained on.
void check_base(const checkpoint::CheckpointReader& resume, const config::Recipe& recipe,
                const train::StartingWeights& weights) {
  if (!resume.files().contains(checkpoint::kAdapterBaseFile)) return;
  checkpoint::check_adapter_base(resume.folder(), checkpoint::read_adapter_base(resume.folder()),
                                 recipe.train.init, weights.base_digest);
}

}  // namespace

Beginning find_beginning(const std::string& checkpoint, const tensor::Layout& layout,
                         const data::Vocabulary* vocabulary, const checkpoint::RunSources& sources,
                         const events::MessageSink& message) {
  Beginning from;
  if (checkpoint.empty()) {
    from.weights = train::starting_weights(sources.recipe, vocabulary, layout, message);
    from.run_id = checkpoint::new_run_id(sources, checkpoint::kNumericsVersion);
    return from;
  }
  from.resume = checkpoint::open_newest(checkpoint);
  checkpoint::ResumeFacts facts = checkpoint::check_resume(*from.resume, sources);
  if (method::is_adapted(sources.recipe.adapter)) {
    config::Recipe recipe = sources.recipe;
    recipe.adapter.init.clear();  // the checkpoint has the factors
    from.weights = train::starting_weights(recipe, vocabulary, layout, message);
    check_base(*from.resume, sources.recipe, from.weights);
  } else {
    from.weights.trained = std::make_shared<tensor::Arena>(layout, sources.recipe.train.weights,
                                                           train::make_offload(sources.recipe));
  }
  from.resume->read_weights(*from.weights.trained);
  from.run_id = from.resume->meta().run;
  from.first_step = static_cast<int64_t>(from.resume->meta().step);
  from.ended_at = facts.ended_at;
  from.notices = std::move(facts.notices);
  return from;
}

std::map<std::string, std::string> checkpoint_texts(const config::Recipe& recipe,
                                                    const Beginning& from) {
  if (method::is_external(recipe)) return {};
  auto texts = train::origin_files(recipe, from.resume ? from.resume->folder() : fs::path());
  if (from.weights.base_digest != 0) {
    texts[checkpoint::kAdapterBaseFile] =
        checkpoint::print_adapter_base({from.weights.base_digest, recipe.train.init});
  }
  return texts;
}

namespace {

// How the workers of this process ended.
class Ending {
 public:
  void reached(const train::WorkerEnd& end) {
    const Lock lock(mutex_);
    end_ = end;
  }
  void failed(std::exception_ptr reason) {
    const Lock lock(mutex_);
    if (!failure_) failure_ = std::move(reason);
  }
  // The reason is another worker's exception.
  void aborted(std::exception_ptr reason) {
    const Lock lock(mutex_);
    if (!aborted_) aborted_ = std::move(reason);
  }
  train::WorkerEnd end() const {
    const Lock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (aborted_) std::rethrow_exception(aborted_);
    return end_;
  }

 private:
  mutable Mutex mutex_;
  std::exception_ptr failure_ GUARDED_BY(mutex_);
  std::exception_ptr aborted_ GUARDED_BY(mutex_);
  train::WorkerEnd end_ GUARDED_BY(mutex_);
};

void run_worker(const train::RunContext& context, transport::Communicator& communicator,
                Ending& ending) {
  std::optional<train::Worker>
      worker;  // it leaves the run when destroyed, after the reason is known
  try {
    worker.emplace(context, communicator);
    ending.reached(worker->run());
  } catch (const train::Aborted&) {
    ending.aborted(std::current_exception());
  } catch (const std::exception& error) {
    ending.failed(std::current_exception());
    communicator.abort(plain_message(error));
  }
}

}  // namespace

train::WorkerEnd run_workers(
    const train::RunContext& context,
    std::span<const std::unique_ptr<transport::Communicator>> communicators) {
  Ending ending;
  std::vector<std::thread> threads;
  try {
    for (const auto& own : communicators) {
      threads.emplace_back([&context, &own, &ending] { run_worker(context, *own, ending); });
    }
  } catch (const std::system_error&) {
    ending.failed(std::make_exception_ptr(Error(
        fmt::format("cannot start {} worker threads; lower train.workers", communicators.size()))));
    communicators.front()->abort("not all workers could be started");
  }
  for (std::thread& thread : threads) thread.join();
  return ending.end();
}

}  // namespace thinwire::launch
