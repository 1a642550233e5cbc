#include "thinwire/member/member.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/cores.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/threads.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/checkpoint/checkpoint_collector.h"
#include "thinwire/checkpoint/run_folder.h"
#include "thinwire/config/changes.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/member/auditor.h"
#include "thinwire/member/blob_fetcher.h"
#include "thinwire/member/committed_communicator.h"
#include "thinwire/member/follower.h"
#include "thinwire/member/member_sink.h"
#include "thinwire/member/privacy_loss.h"
#include "thinwire/member/snapshot.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/combinations.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/privacy/privacy.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/report/opening.h"
#include "thinwire/report/recorder.h"
#include "thinwire/sync/algorithm.h"
#include "thinwire/train/collector.h"
#include "thinwire/train/initial_model.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/train/params_digest.h"
#include "thinwire/train/reference.h"
#include "thinwire/train/resolve.h"
#include "thinwire/train/task_files.h"
#include "thinwire/train/text.h"
#include "thinwire/train/worker.h"

namespace thinwire::member {
namespace {

// How long announcing that it leaves may take.
double leaving_s(const config::Recipe& recipe) { return std::min(5.0, recipe.sync.timeout_s / 40); }

// What a worker starts from.
struct Replica {
  int64_t completed = 0;  // training steps
  std::shared_ptr<tensor::Arena> weights;
  // What holds the rest of its state: this member's checkpoint, or else a snapshot.
  std::unique_ptr<checkpoint::CheckpointReader> checkpoint;
  std::unique_ptr<checkpoint::CheckpointReader> snapshot;
};

// Everything that stays the same while replicas come and go.
class MemberRun {
 public:
  MemberRun(transport::Courier& courier, const Signer& signer, MemberOptions options)
      : options_(std::move(options)),
        text_{load_vocabulary(options_), {}, {}, {}},
        recipe_(resolved(options_.recipe, text_.vocabulary.get())),
        folder_(recipe_, false, checkpoint::Claim::kCallers),
        layout_(method::tensors_of(recipe_)),
        plan_(recipe_, layout_.specs()),
        fetcher_(courier, 1),
        courier_(courier),
        signer_(signer) {
    if (text_.vocabulary) {
      text_.corpus.emplace(recipe_, *text_.vocabulary, options_.shards);
      text_.tasks = train::read_member_tasks(recipe_, *text_.vocabulary, folder_.path());
    }
    if (options_.audits) check_audited(recipe_);
    if (options_.site != nullptr) method::check_command(recipe_, method::Command::kSite);
  }

  MemberResult take_part() {
    if (folder_.finished()) {
      notify("the run is complete: this member has finished it");
      events::Summary summary = events::read_summary(folder_.summary());
      const uint64_t digest = std::stoull(summary.digest, nullptr, 16);
      const int64_t steps = summary.steps;
      return {MemberOutcome::kFinished, steps, digest, std::move(summary), ""};
    }
    folder_.begin(recipe_);
    if (recipe_.privacy.noisy()) {
      const bool has_trained = checkpoint::newest_checkpoint(folder_.checkpoints()).has_value();
      privacy_.emplace(folder_.path() / kPrivacyFile, recipe_.privacy,
                       PrivacyLimits{options_.most_epsilon, has_trained});
    }
    remove_abandoned_snapshot(folder_.path() / kSnapshotFolder);
    own_frozen_ = load_frozen();
    if (options_.site != nullptr) {
      options_.site->begin(recipe_, own_frozen_ ? &own_frozen_->values : nullptr);
    }
    auto own = open_own_checkpoint(folder_.checkpoints(), options_.founding, recipe_.train.steps,
                                   [this](const auto& text) { notify(text); });
    Follower follower(courier_, signer_, plan_,
                      {{.founding = options_.founding,
                        .timeout_s = recipe_.sync.timeout_s,
                        .down_bytes_s = options_.down_bytes_s,
                        .own_rows = own_rows(),
                        .checkpoint = own ? std::optional(own->place) : std::nullopt,
                        .late = recipe_.sync.late,
                        .sums = sync::sum_rule(recipe_),
                        .watch = membership::options_of(recipe_).watch,
                        .audits = options_.audits,
                        .records = own ? std::move(own->records) : std::map<uint64_t, Bytes>()},
                       options_.stop,
                       options_.hooks,
                       options_.keeper});
    if (own) {
      checkpoint_ = std::move(own->reader);
      completed_ = static_cast<int64_t>(checkpoint_->meta().step);
    }
    try {
      MemberResult result = live(follower);
      follower.announce_leaving(leaving_s(recipe_));
      return result;
    } catch (...) {
      follower.announce_leaving(leaving_s(recipe_));
      throw;
    }
  }

 private:
  static std::unique_ptr<data::Vocabulary> load_vocabulary(const MemberOptions& options) {
    train::check_own_model(options.recipe, options.own_model);
    if (method::is_external(options.recipe)) return nullptr;
    return data::Vocabulary::load(options.recipe.data.dir);
  }

  // The run's recipe has every field of its model. Weights of equal digests may come with another
  // configuration, with which they compute something else.
  static void refuse_another_model(const config::Recipe& received, const config::Recipe& own) {
    const auto changes = config::field_changes(received, own);
    if (changes.empty()) return;
    throw UsageError(fmt::format(
        "[train] init: {} holds a model with {} = {}, and the run's has {}", own.train.init,
        changes.front().field, changes.front().now, changes.front().before));
  }

  static config::Recipe resolved(config::Recipe recipe, const data::Vocabulary* vocabulary) {
    if (vocabulary == nullptr) {
      train::resolve_machine(recipe);
    } else {
      const config::Recipe received = recipe;
      train::take_initial_model(recipe);
      refuse_another_model(received, recipe);
      train::resolve(recipe, *vocabulary);
    }
    check_hosted(recipe);
    return recipe;
  }

  // What it says of its own text: nothing, 0, unless shares of rows follow from that.
  uint64_t own_rows() const {
    const bool says = recipe_.data.own && recipe_.sync.shares == config::RowShares::kOwn;
    return says ? text_.corpus->rows.count() : 0;
  }

  AuditedRun audited_run() const {
    return {recipe_, layout_, plan_, text_.corpus->rows, options_.founding.run};
  }

  // One replica after another, until one has finished the run.
  MemberResult live(Follower& follower) {
    while (true) {
      show({ActivityKind::kAsking, 0, 0, {}, "asks to take part"});
      const auto start = follower.wait_start_state();
      if (!start && start.error().kind == FailureKind::kRefused) {
        return {MemberOutcome::kRefused, 0, 0, {}, start.error().message};
      }
      std::optional<MemberResult> result;
      if (start) result = live(follower, *start);
      if (result) return *std::move(result);
      if (follower.stopped()) return {MemberOutcome::kLeft, completed_, 0, {}, ""};
    }
  }

  // One replica; nothing if it has to start over, or if the member is told to stop.
  std::optional<MemberResult> live(Follower& follower, const StartState& start) {
    auto replica = start.checkpoint ? read_checkpoint() : fetch(follower, start);
    checkpoint_.reset();  // outdated from now on
    if (!replica) return std::nullopt;
    std::optional<MemberResult> result;
    try {
      find_reference(follower, *replica);
      if (!follower.begin(start, replica->completed)) return std::nullopt;
      result = train(follower, *std::move(replica));
    } catch (const train::Aborted&) {
      const auto why = follower.starts_over();
      if (why && !follower.refused()) notify(fmt::format("starts over: {}", *why));
    }
    // One that has finished or is told to stop still reports its last state when it leaves.
    if (!result && !follower.stopped()) follower.end();
    return result;
  }

  bool base_was_received() const {
    return fs::path(recipe_.train.init).parent_path() == folder_.path();
  }

  // Tensors that the run does not train, as the base has them; null: there are none.
  std::shared_ptr<train::FrozenWeights> load_frozen() const {
    const bool is_adapted = method::is_adapted(recipe_.adapter);
    if (!is_adapted || !method::facts_of(recipe_.adapter).has_base) return nullptr;
    train::StartingWeights start =
        train::starting_weights(recipe_, text_.vocabulary.get(), layout_, options_.display.message);
    if (start.base_digest != options_.base_digest) {
      throw UsageError(
          fmt::format("[train] init: the weights in {} have the digest {}, and those of the run's "
                      "base {}; {}",
                      recipe_.train.init, to_hex(start.base_digest), to_hex(options_.base_digest),
                      base_was_received()
                          ? "what was received is damaged: delete the folder to receive it again"
                          : "name a folder that holds the base, or leave the field out to receive "
                            "it"));
    }
    return start.frozen;
  }

  // A replica that changes the frozen weights by merging has its own, which are read again for the
  // next.
  std::shared_ptr<train::FrozenWeights> frozen() {
    if (!method::facts_of(recipe_.adapter).merges) return own_frozen_;
    return own_frozen_ != nullptr ? std::move(own_frozen_) : load_frozen();
  }

  std::shared_ptr<tensor::Arena> make_weights() const {
    return std::make_shared<tensor::Arena>(layout_, method::trained_format(recipe_),
                                           train::make_offload(recipe_));
  }

  std::optional<Replica> read_checkpoint() {
    Replica replica;
    replica.completed = static_cast<int64_t>(checkpoint_->meta().step);
    replica.weights = make_weights();
    checkpoint_->read_weights(*replica.weights);
    replica.checkpoint = std::move(checkpoint_);
    notify(fmt::format("continues from its checkpoint after step {}", replica.completed));
    return replica;
  }

  std::optional<Replica> fetch(Follower& follower, const StartState& start) {
    auto snapshot = fetch(start, [&] {
      follower.show_why_silent();
      return follower.stopped() || follower.refused() || follower.is_obsolete(start) ||
             (fetcher_.failed(start.content) && follower.skip(start));
    });
    if (!snapshot) return std::nullopt;
    Replica replica;
    replica.completed = static_cast<int64_t>(snapshot->meta().step);
    replica.weights = make_weights();
    snapshot->read_weights(*replica.weights);
    ThreadPool threads(static_cast<int>(recipe_.train.threads));
    if (!train::all_finite(std::as_const(*replica.weights), threads)) {
      throw Error("the snapshot: a parameter is not finite");
    }
    replica.snapshot = std::move(snapshot);
    return replica;
  }

  // Null if it gives up.
  std::unique_ptr<checkpoint::CheckpointReader> fetch(const StartState& start,
                                                      const std::function<bool()>& gives_up) {
    show({ActivityKind::kFetching, 0, 0, {}, fmt::format("fetches snapshot {}", start.sequence)});
    const auto blob =
        fetcher_.wait(start.content, start.holders, transport::Priority::kBulk, gives_up);
    fetcher_.forget(start.content);
    if (!blob) return nullptr;
    auto snapshot = open_snapshot(**blob, folder_.path() / kSnapshotFolder);
    if (!snapshot) throw Error(snapshot.error().message);
    check((*snapshot)->meta());
    return *std::move(snapshot);
  }

  // Preferences are learnt against the model of snapshot 0. Throws Aborted if the member is told to
  // stop meanwhile.
  void find_reference(Follower& follower, const Replica& replica) {
    if (text_.reference != nullptr || !text_.corpus) return;
    const auto first_weights = [&] {
      if (replica.completed == 0) return train::StartingWeights{replica.weights, frozen()};
      const auto snapshot = fetch(first_state(options_.founding), [&] {
        follower.show_why_silent();
        return follower.stopped();
      });
      if (!snapshot) throw train::Aborted("stopped");
      train::StartingWeights first{make_weights(), frozen()};
      snapshot->read_weights(*first.trained);
      return first;
    };
    text_.reference = train::make_reference(
        {recipe_, *text_.corpus, layout_, folder_.path(), true, replica.checkpoint != nullptr,
         static_cast<int>(recipe_.train.threads), first_weights, options_.display.message});
  }

  // Snapshot 0.
  static StartState first_state(const membership::Founding& founding) {
    StartState first{0, false, {founding.weights, founding.weights_bytes}, {}};
    for (const PublicKey& key : founding.coordinators) {
      first.holders.push_back(participant_name(key));
    }
    return first;
  }

  void check(const checkpoint::CheckpointMeta& snapshot) const {
    if (snapshot.run == options_.founding.run &&
        std::cmp_less_equal(snapshot.step, recipe_.train.steps)) {
      return;
    }
    throw Error("the snapshot that the coordinator assigned is not one of this run");
  }

  // The ledger's first round to which a replica contributes; after a checkpoint, these include
  // rounds that were in flight.
  uint64_t first_round(const Replica& replica) const {
    const auto completed = static_cast<uint64_t>(replica.completed);
    if (replica.completed == recipe_.train.steps) return plan_.rounds();
    return replica.checkpoint ? plan_.settled_rounds(completed) : plan_.round_of(completed);
  }

  std::map<std::string, std::string> checkpoint_texts() const {
    std::map<std::string, std::string> texts = options_.model_files;
    if (options_.base_digest != 0) {
      texts[checkpoint::kAdapterBaseFile] =
          checkpoint::print_adapter_base({options_.base_digest, recipe_.train.init});
    }
    return texts;
  }

  // Whether the ledger has what an evaluation after so many steps decides, if that decides
  // anything: otherwise this member has to say its loss again, even if its log has it.
  bool is_decided(Follower& follower, int64_t steps) const {
    const auto step = static_cast<uint64_t>(steps);
    if (!plan_.decides_after(step)) return true;
    const auto decided = follower.evaluations(steps, false);
    return decided && !decided->empty() && decided->back().step == step;
  }

  MemberResult train(Follower& follower, Replica replica) {
    ThreadPool threads(1);
    const uint64_t first_digest =
        train::bytes_digest(std::as_const(*replica.weights).bytes(), threads);
    const bool merges = method::facts_of(recipe_.adapter).merges;
    std::shared_ptr<train::FrozenWeights> frozen = this->frozen();
    train::InitialParameters initial(std::move(replica.weights), 1, merges ? frozen : nullptr);
    auto evaluated = replica.checkpoint ? evaluated_at(folder_.log(), replica.completed)
                                        : std::set<std::string>();
    if (!is_decided(follower, replica.completed)) evaluated.erase(recipe_.eval.watch);
    report::Recorder recorder(
        recipe_, folder_.path(), replica.completed,
        {.listener = options_.listener, .rows = kOwnRows, .display = options_.display});
    train::Collector collector(recorder);
    checkpoint::CheckpointCollector checkpoints(
        folder_.checkpoints(), recipe_.checkpoint.keep,
        {options_.founding.run, text_.digests(), 0, recipe_.sync.method,
         config::print_recipe(recipe_), text_.vocabulary_file(),
         recipe_.train.batch * recipe_.train.sequence, checkpoint_texts()});
    MemberSink sink(recipe_, options_.founding.run, folder_.path(), follower, collector,
                    checkpoints, [this](const std::string& text) { notify(text); });
    CorePermits cores(std::max(available_cores(), static_cast<int>(recipe_.train.threads)));
    const int id = options_.audits ? CommittedCommunicator::kNoMember : follower.id();
    std::function<void()> contributes;
    if (privacy_) contributes = [this] { privacy_->add(); };
    CommittedCommunicator communicator(follower, plan_, id, first_round(replica), recipe_.sync.late,
                                       contributes);
    std::optional<Auditor> auditor;
    if (options_.audits) {
      auditor.emplace(audited_run(), follower, auditor_seed_, options_.hooks.message);
    }
    const train::MakeRounds make_rounds = [&](const config::Recipe&, uint64_t run,
                                              transport::Communicator&, PermitHold&) {
      return ledger_rounds(run, follower, communicator, plan_,
                           {recipe_.train.steps, options_.row_seconds, recipe_.data.own,
                            options_.spent_on, recipe_.privacy.hides_losses()});
    };
    const bool joins = replica.completed > 0 && !replica.checkpoint;
    const train::RunContext context{
        .replica = {.recipe = recipe_,
                    .run_id = options_.founding.run,
                    .kind = method::RunKind::kHosted,
                    .make_rounds = make_rounds,
                    .memory = options_.own_model == nullptr ? nullptr : options_.own_model->memory,
                    .gradient_memory = options_.own_model == nullptr
                                           ? nullptr
                                           : options_.own_model->gradient_memory,
                    .start = {.initial = initial,
                              .first_step = replica.completed,
                              .resume = replica.checkpoint.get(),
                              .part = MemberSink::kOnlyWorker,
                              .snapshot = joins ? replica.snapshot.get() : nullptr,
                              .frozen = merges ? nullptr : frozen,
                              .evaluated = std::move(evaluated)},
                    .machine = {.cores = cores, .site = options_.site}},
        .make_learner = text_.learner(options_.own_model, layout_),
        .sink = sink,
        .observer = auditor ? &*auditor : nullptr};
    train::WorkerEnd end;
    try {
      train::Worker worker(context, communicator);
      replica.snapshot.reset();  // has been read
      end = worker.run();
    } catch (...) {
      completed_ = sink.completed(replica.completed);
      throw;
    }
    completed_ = end.steps;
    recorder.sync();
    if (!end.finished) throw train::Aborted("stopped");
    const uint64_t digest = sink.last_digest().value_or(first_digest);
    const events::Summary summary = report::summarise(recipe_, recorder, digest);
    events::write_summary(folder_.summary(), summary);
    if (privacy_) {
      notify("the bound on what others can have learnt of this member's text, " +
             method::describe_privacy(recipe_.privacy, privacy_->contributions()));
    }
    return {MemberOutcome::kFinished, end.steps, digest, summary, ""};
  }

  void show(const Activity& activity) const {
    if (options_.hooks.activity) options_.hooks.activity(activity);
  }
  void notify(const std::string& text) const {
    if (options_.hooks.message) options_.hooks.message(text);
  }

  const MemberOptions options_;
  train::TrainingText text_;
  const config::Recipe recipe_;
  checkpoint::RunFolder folder_;
  const tensor::Layout layout_;
  const membership::RecipePlan plan_;
  BlobFetcher fetcher_;
  transport::Courier& courier_;
  const Signer& signer_;
  const uint64_t auditor_seed_ = (uint64_t{std::random_device()()} << 32) | std::random_device()();
  std::shared_ptr<train::FrozenWeights> own_frozen_;
  std::optional<PrivacyLoss> privacy_;                        // in a run with noise
  std::unique_ptr<checkpoint::CheckpointReader> checkpoint_;  // to start from
  int64_t completed_ = 0;  // steps of the last replica or checkpoint
};

}  // namespace

// Refuses recipes that a run of many hosts does not support.
void check_hosted(const config::Recipe& recipe) {
  sync::check_payloads_readable(method::sync_spec(recipe, method::RunKind::kHosted).method);
  method::check_command(recipe, method::Command::kServe);
}

MemberResult run_member(transport::Courier& courier, const Signer& signer, MemberOptions options) {
  const bool is_private = options.recipe.privacy.hides_losses();
  MemberResult result = MemberRun(courier, signer, std::move(options)).take_part();
  result.is_private = is_private;
  return result;
}

}  // namespace thinwire::member
