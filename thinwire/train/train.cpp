#include "thinwire/train/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/file.h"
#include "thinwire/base/rng.h"
#include "thinwire/config/model_shapes.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/rows.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/events/progress.h"
#include "thinwire/links/links.h"
#include "thinwire/method/registry.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/train/params_digest.h"
#include "thinwire/train/ranks.h"
#include "thinwire/train/run_folder.h"
#include "thinwire/train/worker.h"
#include "thinwire/transport/local.h"
#include "thinwire/transport/simulated_network.h"

namespace thinwire::train {
namespace {

// Fills in what only the machine and the prepared data know.
void resolve(config::Recipe& recipe, const data::Vocabulary& vocabulary) {
  const int64_t tokens = vocabulary.size();
  if (recipe.model.vocab == 0) recipe.model.vocab = tokens;
  if (recipe.model.vocab < tokens) {
    throw UsageError(fmt::format("[model] vocab must be >= {} (the vocabulary in {}), got {}",
                                 tokens, recipe.data.dir, recipe.model.vocab));
  }
  const model::Placement placement = model::parse_device(recipe.train.device);
  if (recipe.train.device == "auto") recipe.train.device = placement ? "cuda" : "cpu";
  const bool bf16 =
      model::parse_precision(recipe.train.precision, placement) == model::Precision::kBf16;
  recipe.train.precision = bf16 ? "bf16" : "fp32";
  if (recipe.train.threads > available_cores()) {
    throw UsageError(
        fmt::format("[train] threads must be <= {} (the cores of this machine), got {}",
                    available_cores(), recipe.train.threads));
  }
  config::check_recipe(recipe);
}

struct Corpus {
  explicit Corpus(const config::Recipe& recipe, uint64_t vocabulary_digest)
      : training(
            data::TokenSet::open(fs::path(recipe.data.dir) / "train", vocabulary_digest, true)),
        rows(training, recipe.train.sequence,
             derive_seed(static_cast<uint64_t>(recipe.run.seed), "data")) {
    for (const std::string& name : data::validation_sets(recipe.data.dir)) {
      const fs::path folder = fs::path(recipe.data.dir) / "validation" / name;
      sets.emplace(name, data::TokenSet::open(folder, vocabulary_digest, true));
      validation.emplace(name, data::Rows::ordered(sets.at(name), recipe.train.sequence));
    }
  }

  data::TokenSet training;
  data::Rows rows;
  std::map<std::string, data::TokenSet> sets;
  std::map<std::string, data::Rows> validation;
};

// A checkpoint continues only the run that wrote it.
void check_checkpoint(const CheckpointReader& checkpoint, uint64_t run_id) {
  const CheckpointMeta& meta = checkpoint.meta();
  if (meta.run != run_id) {
    throw Error(fmt::format(
        "{} belongs to another run (run {}, this one is {}): the recipe, the seed or the "
        "vocabulary differs; use train.init to start from its weights",
        checkpoint.folder().string(), to_hex(meta.run), to_hex(run_id)));
  }
  if (meta.numerics_version != kNumericsVersion) {
    throw Error(fmt::format(
        "{} was written with numerics version {}, this program has {} and would not go on "
        "with the same bits; use train.init to start from its weights",
        checkpoint.folder().string(), meta.numerics_version, kNumericsVersion));
  }
}

// Null where nobody's computation takes virtual time.
std::shared_ptr<transport::SimulatedNetwork> simulate_links(const config::Recipe& recipe) {
  auto members = links::members_of(recipe.links, static_cast<int>(recipe.train.workers));
  const bool simulated =
      std::ranges::any_of(members, [](const links::Member& member) { return member.step_s > 0; });
  if (!simulated) return nullptr;
  return std::make_shared<transport::SimulatedNetwork>(std::move(members));
}

// What holds the ranks' bytes back; empty: nothing.
std::vector<links::Link> paced_links(const config::Recipe& recipe) {
  std::vector<links::Link> links;
  if (!recipe.links.paced) return links;
  for (const links::Member& member :
       links::members_of(recipe.links, static_cast<int>(recipe.train.workers))) {
    links.push_back(member.link);
  }
  return links;
}

// Runs every worker on a thread of its own and waits for all. The first failure ends the others and
// is rethrown.
int64_t run_workers(const RunContext& context) {
  const auto workers = static_cast<int>(context.recipe.train.workers);
  auto peers = transport::make_local_peers(workers);
  if (context.simulation) {
    for (auto& own : peers) {
      own = transport::make_simulated_peers(std::move(own), context.simulation);
    }
  }
  std::mutex mutex;
  std::exception_ptr failure;
  int64_t completed = 0;
  const auto body = [&](transport::Peers& own) {
    std::optional<Worker> worker;  // it leaves the run when destroyed, after the reason is known
    try {
      worker.emplace(context, own);
      const int64_t steps = worker->run();
      const std::lock_guard lock(mutex);
      completed = steps;
    } catch (const Aborted&) {
      // The reason is another worker's exception, which is kept.
    } catch (const std::exception& error) {
      {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
      own.abort(error.what());
    }
  };
  std::vector<std::thread> threads;
  try {
    for (const auto& own : peers) threads.emplace_back(body, std::ref(*own));
  } catch (const std::system_error&) {
    const std::lock_guard lock(mutex);
    failure = std::make_exception_ptr(
        Error(fmt::format("cannot start {} worker threads; lower train.workers", workers)));
    peers.front()->abort("not all workers could be started");
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return completed;
}

// From the simulation where there is one, as it was where bytes were held back; else as if workers
// waited for every byte.
void time_over_links(const config::Recipe& recipe, std::span<const TensorSpec> specs,
                     events::Summary& summary) {
  const auto workers = static_cast<int>(recipe.train.workers);
  const std::vector<links::Member> members = links::members_of(recipe.links, workers);
  double step_s = 0;
  for (const links::Member& member : members) step_s += member.step_s / workers;
  if (step_s > 0) {
    summary.compute_utilization =
        static_cast<double>(summary.steps) * step_s / summary.seconds_over_links;
    return;
  }
  summary.seconds_over_links = summary.seconds;
  if (workers == 1 || recipe.links.paced) return;
  const double turns =
      method::find_method(recipe.sync.method).traffic(recipe, specs, workers).turns;
  double slowest = 0;
  for (const links::Member& member : members) {
    slowest =
        std::max(slowest, links::transfer_seconds(member.link, summary.bytes_sent_per_worker_step,
                                                  summary.bytes_received_per_worker_step, turns));
  }
  summary.seconds_over_links += static_cast<double>(summary.steps) * slowest;
}

events::Summary summarise(const RunContext& context, const Recorder& recorder, uint64_t digest) {
  const config::Recipe& recipe = context.recipe;
  const auto specs = config::llama_tensors(recipe.model);
  const auto workers = static_cast<int>(recipe.train.workers);
  events::Summary summary = recorder.totals();
  summary.params = config::parameter_count(specs);
  summary.params_non_embedding = config::non_embedding_count(specs);
  summary.digest = to_hex(digest);
  summary.peak_memory_bytes = static_cast<int64_t>(peak_memory_bytes());
  const double sent = summary.bytes_sent_per_worker_step;
  const double received = summary.bytes_received_per_worker_step;
  const double ring = method::ring_bytes(summary.params, workers);
  if (sent > 0) summary.ratio_report = 2.0 * static_cast<double>(summary.params) / sent;
  if (sent > 0) summary.ratio_ring_sent = ring / sent;
  if (received > 0) summary.ratio_ring = ring / received;
  summary.link_down_bit_s = recipe.links.down_bit_s;
  summary.link_up_bit_s = recipe.links.up_bit_s;
  time_over_links(recipe, specs, summary);
  return summary;
}

// A rank's only worker; what ends it ends the job.
int64_t run_rank(const RunContext& context, transport::Peers& peers) {
  std::optional<Worker> worker;  // it leaves the run when destroyed, after the reason is known
  try {
    worker.emplace(context, peers);
    return worker->run();
  } catch (const std::exception& error) {
    peers.abort(error.what());
    throw;
  }
}

// What the process that writes the run folder has.
struct Office {
  Office(const config::Recipe& recipe, const RunFolder& folder, int64_t first_step,
         const std::atomic<bool>* stop, Ranks* ranks, CheckpointStamp stamp)
      : recorder(recipe, folder.path(), first_step),
        collector(static_cast<int>(recipe.train.workers), recorder, stop),
        checkpoints(folder.checkpoints(), static_cast<int>(recipe.train.workers),
                    recipe.checkpoint.keep, std::move(stamp)),
        desk(
            collector, checkpoints,
            ranks == nullptr ? std::function<bool(int64_t)>()
                             : [ranks](int64_t step) { return ranks->stops_before(step); }) {}

  Recorder recorder;
  Collector collector;
  CheckpointMeeting checkpoints;
  FolderDesk desk;
};

// What is to be done, found out by the process that has the folder and told to the others.
Ranks::Start find_start(const RunFolder* folder, Ranks* ranks) {
  if (folder == nullptr) return ranks->hear();
  Ranks::Start start;
  start.finished = folder->finished();
  if (const auto newest = newest_checkpoint(folder->checkpoints())) {
    start.checkpoint = newest->string();
  }
  if (ranks != nullptr) ranks->tell(start);
  return start;
}

// `ranks` is null where all workers are threads of this process.
TrainResult train_here(config::Recipe recipe, const TrainOptions& options, Ranks* ranks) {
  const auto vocabulary = data::Vocabulary::load(recipe.data.dir);
  resolve(recipe, *vocabulary);
  std::optional<RunFolder> folder;
  if (ranks == nullptr || ranks->leads()) folder.emplace(recipe, options.restart);
  const Ranks::Start start = find_start(folder ? &*folder : nullptr, ranks);
  if (start.finished) {
    if (!folder) return {Outcome::kElsewhere, recipe.train.steps, {}};
    return {Outcome::kAlreadyFinished, recipe.train.steps, events::read_summary(folder->summary())};
  }
  const Corpus corpus(recipe, vocabulary->digest());
  const tensor::Layout layout(config::llama_tensors(recipe.model));
  auto initial = std::make_shared<tensor::Arena>(layout);
  std::optional<CheckpointReader> resume;
  if (!start.checkpoint.empty()) resume.emplace(start.checkpoint);
  if (resume) {
    resume->read_weights(*initial);
  } else {
    set_initial_parameters(recipe, *initial);
  }

  const uint64_t run_id =
      derive_seed(hash_bytes(as_bytes(run_identity(recipe))), vocabulary->digest());
  if (resume) check_checkpoint(*resume, run_id);
  const auto first_step = resume ? static_cast<int64_t>(resume->meta().step) : 0;
  std::optional<Office> office;
  std::unique_ptr<Desk> remote;
  if (folder) {
    office.emplace(recipe, *folder, first_step, options.stop, ranks,
                   CheckpointStamp{run_id, recipe.sync.method, config::print_recipe(recipe),
                                   vocabulary->file(), recipe.train.batch * recipe.train.sequence});
    if (resume) {
      office->recorder.message(first_step, fmt::format("resuming {} after step {}",
                                                       folder->path().string(), first_step));
    }
  } else {
    remote = ranks->remote_desk();
  }
  std::optional<Ranks::Service> service;
  if (office && ranks != nullptr) service.emplace(*ranks, office->desk);
  CoreSlots cores(std::max(available_cores(), static_cast<int>(recipe.train.threads)));
  const bool trains = first_step < recipe.train.steps;
  ThreadPool threads(1);
  const uint64_t first_digest = trains ? 0 : values_digest(initial->all(), threads);
  const int workers_here = ranks == nullptr ? static_cast<int>(recipe.train.workers) : 1;
  InitialParameters shared_initial(std::move(initial), workers_here);
  const RunContext context{recipe,
                           layout,
                           shared_initial,
                           run_id,
                           first_step,
                           corpus.rows,
                           corpus.validation,
                           cores,
                           office ? static_cast<Desk&>(office->desk) : *remote,
                           resume ? &*resume : nullptr,
                           simulate_links(recipe)};
  const int64_t completed =
      ranks == nullptr ? run_workers(context) : run_rank(context, ranks->peers());
  if (!office) {
    ranks->all_handed_in();
    return {Outcome::kElsewhere, completed, {}};
  }
  if (ranks != nullptr) ranks->wait_for_parts();
  office->recorder.sync();
  if (completed < recipe.train.steps) return {Outcome::kStopped, completed, {}};
  const uint64_t digest = trains ? office->collector.last_digest() : first_digest;
  const events::Summary summary = summarise(context, office->recorder, digest);
  events::write_summary(folder->summary(), summary);
  return {Outcome::kFinished, completed, summary};
}

}  // namespace

TrainResult train(config::Recipe recipe, const TrainOptions& options) {
  if (recipe.train.engine == "local") return train_here(std::move(recipe), options, nullptr);
  Ranks ranks(static_cast<int>(recipe.train.workers), paced_links(recipe), options.stop);
  try {
    if (simulate_links(recipe)) {
      throw UsageError("[links] step_s needs [train] engine = \"local\", got \"mpi\"");
    }
    return train_here(std::move(recipe), options, &ranks);
  } catch (const std::exception& error) {
    ranks.peers().abort(error.what());
    throw;
  }
}

}  // namespace thinwire::train
