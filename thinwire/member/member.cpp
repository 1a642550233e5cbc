#include "thinwire/member/member.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "thinwire/base/threads.h"
#include "thinwire/checkpoint/meeting.h"
#include "thinwire/checkpoint/run_folder.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/member/blob_fetcher.h"
#include "thinwire/member/committed_communicator.h"
#include "thinwire/member/follower.h"
#include "thinwire/member/ledger_rounds.h"
#include "thinwire/member/member_sink.h"
#include "thinwire/member/snapshot.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/registry.h"
#include "thinwire/report/recorder.h"
#include "thinwire/report/summarise.h"
#include "thinwire/train/collector.h"
#include "thinwire/train/corpus.h"
#include "thinwire/train/initial_model.h"
#include "thinwire/train/resolve.h"
#include "thinwire/train/worker.h"

namespace thinwire::member {
namespace {

// How long saying goodbye may take.
double goodbye_s(const config::Recipe& recipe) { return std::min(5.0, recipe.sync.timeout_s / 40); }

void refuse(std::string_view field, std::string_view right, std::string_view value,
            std::string_view why) {
  throw UsageError(
      fmt::format("{} must be {} for members on many hosts, got {}: {}", field, right, value, why));
}

// Everything that stays the same while replicas come and go.
class Membership {
 public:
  Membership(transport::Courier& courier, const Signer& signer, MemberOptions options)
      : options_(std::move(options)),
        vocabulary_(data::Vocabulary::load(options_.recipe.data.dir)),
        recipe_(resolved(options_.recipe, *vocabulary_)),
        folder_(recipe_, false),
        corpus_(recipe_, *vocabulary_),
        layout_(method::tensors_of(recipe_)),
        plan_(recipe_, layout_.specs()),
        fetcher_(courier, 1),
        courier_(courier),
        signer_(signer) {}

  MemberResult take_part() {
    if (folder_.finished()) {
      events::Summary summary = events::read_summary(folder_.summary());
      const uint64_t digest = std::stoull(summary.digest, nullptr, 16);
      return {MemberOutcome::kFinished, recipe_.train.steps, digest, std::move(summary), ""};
    }
    folder_.begin(recipe_);
    Follower follower(courier_, signer_, plan_,
                      {options_.founding, recipe_.sync.timeout_s, options_.down_bytes_s,
                       options_.stop, options_.hooks});
    try {
      MemberResult result = live(follower);
      follower.say_goodbye(goodbye_s(recipe_));
      return result;
    } catch (...) {
      follower.say_goodbye(goodbye_s(recipe_));
      throw;
    }
  }

 private:
  static config::Recipe resolved(config::Recipe recipe, const data::Vocabulary& vocabulary) {
    train::take_initial_model(recipe);
    train::resolve(recipe, vocabulary);
    check_hosted(recipe);
    return recipe;
  }

  // One replica after another, until one has finished the run.
  MemberResult live(Follower& follower) {
    while (true) {
      show({Doing::kAsking, 0, 0, {}, "asks to take part"});
      const auto beginning = follower.wait_beginning();
      if (!beginning && beginning.error().kind == FailureKind::kRefused) {
        return {MemberOutcome::kRefused, 0, 0, {}, beginning.error().message};
      }
      std::optional<MemberResult> result;
      if (beginning) result = live(follower, *beginning);
      if (result) return *std::move(result);
      if (follower.stopped()) return {MemberOutcome::kLeft, completed_, 0, {}, ""};
    }
  }

  // With one snapshot; nothing if the replica has to start over, or if the member is to stop.
  std::optional<MemberResult> live(Follower& follower, const Beginning& beginning) {
    show({Doing::kFetching, 0, 0, {}, fmt::format("fetches snapshot {}", beginning.sequence)});
    const auto blob =
        fetcher_.wait(beginning.content, beginning.holders, transport::Priority::kBulk,
                      [&] { return follower.stopped() || follower.is_obsolete(beginning); });
    fetcher_.forget(beginning.content);
    if (!blob) return std::nullopt;
    auto snapshot = decode_snapshot(**blob);
    if (!snapshot) throw Error(snapshot.error().message);
    check(*snapshot);
    if (!follower.begin(beginning, snapshot->completed)) return std::nullopt;
    std::optional<MemberResult> result;
    try {
      result = train(follower, *std::move(snapshot));
    } catch (const train::Aborted&) {
      if (const auto why = follower.starts_over()) say(fmt::format("starts over: {}", *why));
    }
    follower.end();
    return result;
  }

  void check(const RunSnapshot& snapshot) const {
    if (snapshot.run == options_.founding.run && snapshot.completed <= recipe_.train.steps &&
        snapshot.weights.size() == static_cast<size_t>(layout_.total())) {
      return;
    }
    throw Error("the snapshot that the coordinator names is not one of this run");
  }

  MemberResult train(Follower& follower, RunSnapshot snapshot) {
    auto weights = std::make_shared<tensor::Arena>(layout_);
    std::ranges::copy(snapshot.weights, weights->all().begin());
    snapshot.weights = {};
    train::InitialParameters initial(std::move(weights), 1);
    report::Recorder recorder(recipe_, folder_.path(), snapshot.completed);
    train::Collector collector(recorder);
    checkpoint::CheckpointMeeting checkpoints(
        folder_.checkpoints(), recipe_.checkpoint.keep,
        {options_.founding.run, corpus_.digests, 0, recipe_.sync.method,
         config::print_recipe(recipe_), vocabulary_->file(),
         recipe_.train.batch * recipe_.train.sequence, train::origin_files(recipe_, "")});
    MemberSink sink(recipe_, options_.founding.run, follower, collector, checkpoints);
    CorePermits cores(std::max(available_cores(), static_cast<int>(recipe_.train.threads)));
    const bool ended = snapshot.completed == recipe_.train.steps;
    const uint64_t first_round =
        ended ? plan_.rounds() : plan_.round_of(static_cast<uint64_t>(snapshot.completed));
    CommittedCommunicator communicator(follower, plan_, follower.id(), first_round);
    const train::MakeRounds make_rounds = [&](const config::Recipe&, uint64_t run,
                                              transport::Communicator&, PermitHold&) {
      return ledger_rounds(run, follower, communicator, plan_,
                           {recipe_.train.steps, options_.row_seconds});
    };
    const train::RunContext context{recipe_,
                                    layout_,
                                    initial,
                                    options_.founding.run,
                                    snapshot.completed,
                                    corpus_.rows,
                                    corpus_.validation,
                                    cores,
                                    sink,
                                    nullptr,
                                    nullptr,
                                    0,
                                    {},
                                    {},
                                    make_rounds,
                                    snapshot.completed == 0 ? nullptr : &snapshot.consensus};
    train::RunEnd end;
    try {
      end = train::Worker(context, communicator).run();
    } catch (...) {
      completed_ = sink.completed(snapshot.completed);
      throw;
    }
    completed_ = end.steps;
    recorder.sync();
    if (!end.finished) throw train::Aborted("stopped");
    const uint64_t digest = sink.last_digest().value_or(0);
    const events::Summary summary = report::summarise(recipe_, recorder, digest);
    events::write_summary(folder_.summary(), summary);
    return {MemberOutcome::kFinished, end.steps, digest, summary, ""};
  }

  void show(const Activity& activity) const {
    if (options_.hooks.activity) options_.hooks.activity(activity);
  }
  void say(const std::string& text) const {
    if (options_.hooks.say) options_.hooks.say(text);
  }

  const MemberOptions options_;
  const std::shared_ptr<const data::Vocabulary> vocabulary_;
  const config::Recipe recipe_;
  checkpoint::RunFolder folder_;
  const train::Corpus corpus_;
  const tensor::Layout layout_;
  const membership::RecipePlan plan_;
  BlobFetcher fetcher_;
  transport::Courier& courier_;
  const Signer& signer_;
  int64_t completed_ = 0;  // steps, when a replica last stopped
};

}  // namespace

void check_hosted(const config::Recipe& recipe) {
  if (recipe.sync.clustered()) {
    refuse("[sync] within", "\"none\"", fmt::format("\"{}\"", recipe.sync.within),
           "the members of a cluster cannot exchange among themselves there");
  }
  const method::Method& method = method::find_method(recipe.sync.method);
  if (recipe.train.update == config::UpdateTime::kLayer && !method.trains_apart) {
    refuse("[train] update", "\"step\"", "\"layer\"",
           "the sum of a layer is needed before that of the next one is sent, and a round closes "
           "with all of them");
  }
  if (recipe.train.weights != WeightFormat::kF32) {
    refuse("[train] weights", "\"fp32\"", fmt::format("\"{}\"", name_of(recipe.train.weights)),
           "snapshots hold fp32");
  }
  if (recipe.optim.state != StateFormat::kF32) {
    refuse("[optim] state", "\"fp32\"", fmt::format("\"{}\"", name_of(recipe.optim.state)),
           "snapshots hold fp32");
  }
  if (recipe.adapter.kind != "none") {
    refuse("[adapter] kind", "\"none\"", fmt::format("\"{}\"", recipe.adapter.kind),
           "members receive the tensors that are trained, and not yet those that are frozen");
  }
  if (!recipe.sync.absent.empty()) {
    refuse("[sync] absent", "empty", fmt::format("{} entries", recipe.sync.absent.size()),
           "members come and go by themselves there");
  }
  if (!recipe.eval.tasks.empty()) {
    refuse("[eval] tasks", "empty", fmt::format("{} tasks", recipe.eval.tasks.size()),
           "members evaluate their own rows there, and score no tasks");
  }
  if (recipe.eval.patience > 0) {
    refuse("[eval] patience", "0", fmt::to_string(recipe.eval.patience),
           "members evaluate their own rows there, so none knows the loss of all");
  }
  if (recipe.checkpoint.best) {
    refuse("[checkpoint] best", "false", "true",
           "members evaluate their own rows there, so none knows the loss of all");
  }
  if (recipe.links.step_s > 0) {
    refuse("[links] step_s", "0", fmt::format("{:g}", recipe.links.step_s),
           "the virtual clocks of all workers must be in one process");
  }
}

MemberResult run_member(transport::Courier& courier, const Signer& signer, MemberOptions options) {
  return Membership(courier, signer, std::move(options)).take_part();
}

}  // namespace thinwire::member
