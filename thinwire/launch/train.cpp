#include "thinwire/launch/train.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/units.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/checkpoint/run_folder.h"
#include "thinwire/config/automatic.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/events/progress.h"
#include "thinwire/events/run_log.h"
#include "thinwire/launch/beginning.h"
#include "thinwire/launch/ranks.h"
#include "thinwire/links/links.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/automatic.h"
#include "thinwire/method/combinations.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"
#include "thinwire/report/opening.h"
#include "thinwire/train/corpus.h"
#include "thinwire/train/initial_model.h"
#include "thinwire/train/params_digest.h"
#include "thinwire/train/reference.h"
#include "thinwire/train/resolve.h"
#include "thinwire/train/run_tasks.h"
#include "thinwire/train/text.h"
#include "thinwire/train/worker.h"
#include "thinwire/transport/communicator.h"
#include "thinwire/transport/simulated_network.h"

namespace thinwire::launch {
namespace {

// With train.init: taken from the checkpoint if there is one to resume from, so that the run stays
// the same.
void take_model(config::Recipe& recipe, bool restart) {
  const auto newest = restart
                          ? std::nullopt
                          : checkpoint::newest_checkpoint(fs::path(recipe.run.dir) / "checkpoints");
  if (newest) return train::take_resumed_model(recipe, *newest);
  train::take_initial_model(recipe);
}

// What a rule chooses may depend on fields that may change, such as train.steps: a run goes on with
// the numbers with which it began.
void take_begun_numbers(config::Recipe& recipe, bool restart) {
  if (restart) return;
  if (auto begun = checkpoint::begun_recipe(recipe.run.dir)) {
    config::take_open_numbers(recipe, std::move(*begun));
  }
}

// Refuses a run that this machine cannot hold, before anything is allocated.
void require_memory(const config::Recipe& recipe, int64_t workers_here,
                    const events::MessageSink& message) {
  const std::string warning = check_memory(method::run_memory(recipe, workers_here));
  if (!warning.empty()) message(warning);
}

// Refuses a run whose disk has no room for a single checkpoint, before anything is trained in vain.
void require_disk(const config::Recipe& recipe) {
  const std::optional<uint64_t> available = free_disk_bytes(recipe.run.dir);
  const double need = method::checkpoint_bytes(recipe);
  if (!available || static_cast<double>(*available) >= need) return;
  throw UsageError(fmt::format(
      "[run] dir must be on a disk with room for a checkpoint, which takes about {}, got {}, where "
      "{} are free; make room or choose a folder on another disk",
      format_bytes(need), recipe.run.dir, format_bytes(static_cast<double>(*available))));
}

void warn_of_names_and_ignored(const config::Recipe& recipe, const events::MessageSink& message) {
  for (const std::string& notice : recipe.notices) message(notice);
  for (const std::string& field : method::ignored_fields(recipe)) message(field);
  for (const std::string& number : method::automatic_numbers(recipe)) message(number);
  const std::string crowded = train::thread_warning(recipe);
  if (!crowded.empty()) message(crowded);
}

// The prepared data is used even if the text is elsewhere; without this notice, a difference from
// the recipe would go unnoticed.
void report_preparation_changes(const config::DataSection& data,
                                const events::MessageSink& message) {
  constexpr size_t kNamed = 3;
  std::vector<std::string> reasons = data::preparation_changes(data);
  if (reasons.empty()) return;
  if (reasons.size() > kNamed) {
    const std::string more = fmt::format("{} more", reasons.size() - kNamed);
    reasons.resize(kNamed);
    reasons.push_back(more);
  }
  message(
      fmt::format("{} is used as it was prepared, not as the recipe says now ({}); `thinwire "
                  "prepare --force` prepares it again",
                  data.dir, fmt::join(reasons, "; ")));
}

// Null if links are not simulated.
std::shared_ptr<transport::SimulatedNetwork> simulate_links(const config::Recipe& recipe) {
  auto members = links::members_of(recipe.links, static_cast<int>(recipe.train.workers));
  const bool simulated =
      std::ranges::any_of(members, [](const links::Member& member) { return member.step_s > 0; });
  if (!simulated) return nullptr;
  return std::make_shared<transport::SimulatedNetwork>(std::move(members));
}

// The links to which the ranks' bytes are slowed down; empty if they are not.
std::vector<links::Link> paced_links(const config::Recipe& recipe) {
  std::vector<links::Link> links;
  if (!recipe.links.paced) return links;
  for (const links::Member& member :
       links::members_of(recipe.links, static_cast<int>(recipe.train.workers))) {
    links.push_back(member.link);
  }
  return links;
}

// One for each worker, if this process has all of them.
std::vector<std::unique_ptr<transport::Communicator>> local_communicators(
    const train::RunContext& context) {
  const train::ReplicaParts& replica = context.replica;
  return transport::make_local_communicators(static_cast<int>(replica.recipe.train.workers),
                                             replica.machine.simulation);
}

// The objects of the process that writes the run folder.
struct Recording {
  Recording(const config::Recipe& recipe, const checkpoint::RunFolder& folder, int64_t first_step,
            const TrainOptions& options, events::Listener* listener,
            checkpoint::CheckpointStamp stamp)
      : recorder(recipe, folder.path(), first_step,
                 {.listener = listener, .display = options.display}),
        collector(recorder),
        checkpoints(folder.checkpoints(), recipe.checkpoint.keep, std::move(stamp)),
        sink(collector, checkpoints, options.stop, recipe.checkpoint.minutes) {}

  report::Recorder recorder;
  train::Collector collector;
  checkpoint::CheckpointCollector checkpoints;
  train::FolderSink sink;
};

// Reads from the log of a run its evaluations up to `step`.
void read_evaluations(const fs::path& log, int64_t step, const std::string& watch,
                      Ranks::Start& start) {
  if (!fs::exists(log)) return;
  for (const events::EvalEvent& event : events::read_run_log(log).evals) {
    if (event.step == step) start.evaluated.push_back(event.name);
    if (event.score) continue;
    if (event.step <= step && event.name == watch) start.best.add(event.step, event.loss);
  }
}

// The lowest recorded loss on `watch` up to `step` among the evaluations that have a checkpoint.
checkpoint::BestLoss best_checkpoint(const checkpoint::RunFolder& folder, int64_t step,
                                     const std::string& watch) {
  checkpoint::BestLoss best;
  if (!fs::exists(folder.log())) return best;
  for (const events::EvalEvent& event : events::read_run_log(folder.log()).evals) {
    const auto at = static_cast<uint64_t>(event.step);
    const bool counts =
        event.step <= step && event.name == watch && !event.score &&
        checkpoint::is_checkpoint(folder.checkpoints() / checkpoint::checkpoint_name(at));
    if (counts) best.add(event.step, event.loss);
  }
  return best;
}

// Finds out where to start; done by the process that has the folder, which then broadcasts it to
// the others.
Ranks::Start find_start(const config::Recipe& recipe, const checkpoint::RunFolder* folder,
                        Ranks* ranks) {
  if (folder == nullptr) return ranks->await_broadcast();
  Ranks::Start start;
  start.finished = folder->finished();
  start.checkpoint = folder->newest().string();
  if (!start.checkpoint.empty()) {
    const auto step = static_cast<int64_t>(*checkpoint::checkpoint_step(start.checkpoint));
    read_evaluations(folder->log(), step, recipe.eval.watch, start);
  }
  if (ranks != nullptr) ranks->broadcast(start);
  return start;
}

// Completes the recipe from the vocabulary and the model that the run begins with, and returns the
// former; null for an external model.
std::unique_ptr<data::Vocabulary> complete(config::Recipe& recipe, const TrainOptions& options) {
  train::check_own_model(recipe, options.own_model);
  if (method::is_external(recipe)) {
    train::resolve_machine(recipe);
    return nullptr;
  }
  auto vocabulary = data::Vocabulary::load(recipe.data.dir);
  take_model(recipe, options.restart);
  train::resolve(recipe, *vocabulary);
  return vocabulary;
}

// Opens the folder for this run, prints what the run will do, and creates the recording.
void begin_recording(std::optional<Recording>& recording, const config::Recipe& recipe,
                     checkpoint::RunFolder& folder, const Beginning& from,
                     const train::TrainingText& text, int64_t workers_here,
                     const TrainOptions& options) {
  // First, because it may fail: nothing is written yet.
  events::Listener* const listener =
      options.listen ? options.listen(recipe, from.first_step) : nullptr;
  folder.begin(recipe);
  for (const std::string& line : report::opening_lines(recipe, text.training(), workers_here)) {
    options.display.message(line);
  }
  if (const data::RecordPlan* const records = text.corpus ? text.corpus->rows.records() : nullptr) {
    options.display.message("  " + records->description());
  }
  const bool starts_over = !from.resume && fs::exists(folder.log());
  const checkpoint::BestLoss best = best_checkpoint(folder, from.first_step, recipe.eval.watch);
  recording.emplace(
      recipe, folder, from.first_step, options, listener,
      checkpoint::CheckpointStamp{from.run_id, text.digests(), from.ended_at, recipe.sync.method,
                                  config::print_recipe(recipe), text.vocabulary_file(),
                                  recipe.train.batch * recipe.train.sequence,
                                  checkpoint_texts(recipe, from)});
  if (from.resume) {
    recording->recorder.message(
        from.first_step,
        fmt::format("resuming {} after step {}", folder.path().string(), from.first_step));
  }
  if (starts_over) {
    recording->recorder.message(
        0, fmt::format("{} has no checkpoint yet; starting over", folder.path().string()));
  }
  if (recipe.checkpoint.best) recording->sink.keep_best(recipe.eval.watch, best);
  for (const std::string& notice : from.notices) {
    recording->recorder.message(from.first_step, notice);
  }
  for (const train::RunTask& task : text.tasks) {
    if (!task.note.empty()) recording->recorder.message(from.first_step, task.note);
  }
}

// Where the parts go that workers here hand in: the recording of this process, the rank that has
// it, or, on that rank, both.
struct Sinks {
  std::optional<Recording> recording;
  std::unique_ptr<train::RunSink>
      between;  // with ranks: between the workers here and the recording

  train::RunSink& sink() { return between ? *between : recording->sink; }
};

void open_folder(std::optional<checkpoint::RunFolder>& folder, const config::Recipe& recipe,
                 const TrainOptions& options) {
  warn_of_names_and_ignored(recipe, options.display.message);
  folder.emplace(recipe, options.restart);
  if (!method::is_external(recipe))
    report_preparation_changes(recipe.data, options.display.message);
}

TrainResult already_finished(const config::Recipe& recipe,
                             const std::optional<checkpoint::RunFolder>& folder) {
  if (!folder) return {Outcome::kElsewhere, recipe.train.steps, {}};
  return {Outcome::kAlreadyFinished, recipe.train.steps, events::read_summary(folder->summary())};
}

// Where the run is recorded, once all its workers' parts have come.
TrainResult record_end(const config::Recipe& recipe, const checkpoint::RunFolder& folder,
                       Recording& recording, const train::WorkerEnd& end, uint64_t first_digest) {
  recording.recorder.sync();
  if (!end.finished) return {Outcome::kStopped, end.steps, {}};
  if (end.steps < recipe.train.steps) {
    recording.recorder.message(end.steps, train::why_early(recipe, end.best));
  }
  const uint64_t compared = recording.collector.last_digest().value_or(first_digest);
  const uint64_t digest = end.digest.value_or(compared);
  const events::Summary summary = report::summarise(recipe, recording.recorder, digest);
  events::write_summary(folder.summary(), summary);
  return {Outcome::kFinished, end.steps, summary};
}

// What preferences are learnt against; null without them. All ranks compute what they cannot read,
// and the one with the folder keeps it.
std::shared_ptr<const train::Reference> find_reference(
    const config::Recipe& recipe, const train::Corpus& corpus, const tensor::Layout& layout,
    const data::Vocabulary& vocabulary, const Beginning& from, int workers_here, bool writes,
    const events::MessageSink& message) {
  const int wanted = workers_here * static_cast<int>(recipe.train.threads);
  return train::make_reference(
      {recipe, corpus, layout, recipe.run.dir, writes, from.resume != nullptr,
       std::max(1, std::min(available_cores(), wanted)),
       [&] {
         if (from.resume == nullptr) return from.weights;
         return train::starting_weights(recipe, &vocabulary, layout, message);
       },
       message});
}

// The rest of the text, once it is known where the run goes on.
void read_text(const config::Recipe& recipe, const fs::path& resumed, bool tells,
               const events::MessageSink& message, train::TrainingText& text) {
  if (!text.vocabulary) return;
  const std::string note = train::turn_end_note(recipe, *text.vocabulary, resumed);
  if (tells && !note.empty()) message(note);
  text.corpus.emplace(recipe, *text.vocabulary);
  std::vector<std::string> sets;
  for (const auto& [name, rows] : text.corpus->validation) sets.push_back(name);
  train::check_watch(recipe, sets);
  text.tasks = train::read_run_tasks(recipe, *text.vocabulary, resumed);
}

// `ranks` is null if all workers are threads of this process.
TrainResult train_here(config::Recipe recipe, const TrainOptions& options, Ranks* ranks) {
  const events::MessageSink& message = options.display.message;
  method::check_command(recipe, method::Command::kTrain);
  method::require_initial_model(recipe);
  take_begun_numbers(recipe, options.restart);
  train::TrainingText text{complete(recipe, options), {}, {}, {}};
  const int workers_here =
      ranks == nullptr ? static_cast<int>(recipe.train.workers) : ranks->members_here();
  require_memory(recipe, workers_here, message);
  std::optional<checkpoint::RunFolder> folder;
  if (ranks == nullptr || ranks->leads()) open_folder(folder, recipe, options);
  const Ranks::Start start = find_start(recipe, folder ? &*folder : nullptr, ranks);
  if (start.finished) return already_finished(recipe, folder);
  if (folder) require_disk(recipe);
  read_text(recipe, start.checkpoint, folder.has_value(), message, text);
  const tensor::Layout layout(method::tensors_of(recipe));
  const checkpoint::DataDigests digests = text.digests();
  Beginning from = find_beginning(start.checkpoint, layout, text.vocabulary.get(),
                                  {recipe, text.vocabulary_digest(), digests}, message);
  const bool begins = options.own_model != nullptr && from.resume == nullptr;
  if (begins && options.own_model->initial) options.own_model->initial(*from.weights.trained);
  Sinks sinks;
  if (folder) begin_recording(sinks.recording, recipe, *folder, from, text, workers_here, options);
  if (ranks != nullptr) {
    sinks.between = folder ? ranks->leader_sink(sinks.recording->sink) : ranks->remote_sink();
  }
  if (text.corpus) {
    text.reference = find_reference(recipe, *text.corpus, layout, *text.vocabulary, from,
                                    workers_here, folder.has_value(), message);
  }
  if (sinks.recording) sinks.recording->recorder.restart_clock();
  CorePermits cores(std::max(available_cores(), static_cast<int>(recipe.train.threads)));
  ThreadPool threads(1);
  const uint64_t first_digest =
      train::bytes_digest(std::as_const(*from.weights.trained).bytes(), threads);
  const bool merges = method::facts_of(recipe.adapter).merges;
  train::InitialParameters shared_initial(std::move(from.weights.trained), workers_here,
                                          merges ? std::move(from.weights.frozen) : nullptr);
  const train::RunContext context{
      .replica = {.recipe = recipe,
                  .run_id = from.run_id,
                  .memory = options.own_model == nullptr ? nullptr : options.own_model->memory,
                  .gradient_memory =
                      options.own_model == nullptr ? nullptr : options.own_model->gradient_memory,
                  .start = {.initial = shared_initial,
                            .first_step = from.first_step,
                            .ended_at = from.ended_at,
                            .resume = from.resume.get(),
                            .frozen = from.weights.frozen,
                            .evaluated = {start.evaluated.begin(), start.evaluated.end()},
                            .best = start.best},
                  .machine = {.cores = cores, .simulation = simulate_links(recipe)}},
      .make_learner = text.learner(options.own_model, layout),
      .sink = sinks.sink()};
  if (options.on_start) options.on_start();
  const train::WorkerEnd end = run_workers(
      context, ranks == nullptr ? local_communicators(context) : ranks->make_communicators());
  if (folder && ranks != nullptr) ranks->wait_for_parts();
  if (folder) return record_end(recipe, *folder, *sinks.recording, end, first_digest);
  ranks->all_handed_in();
  return {Outcome::kElsewhere, end.steps, {}};
}

}  // namespace

TrainResult train(config::Recipe recipe, const TrainOptions& options) {
  if (recipe.train.launcher == config::Launcher::kThreads)
    return train_here(std::move(recipe), options, nullptr);
  const auto workers = static_cast<int>(recipe.train.workers);
  Ranks ranks(workers, transport::join_mpi_job(workers, paced_links(recipe)), options.stop,
              options.display.message);
  try {
    return train_here(std::move(recipe), options, &ranks);
  } catch (const std::exception& error) {
    ranks.abort(plain_message(error));
    throw;
  }
}

}  // namespace thinwire::launch
