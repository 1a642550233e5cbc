#include "thinwire/launch/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/events/progress.h"
#include "thinwire/train/worker.h"

namespace thinwire::launch {
namespace {

constexpr int kLeader = 0;
// Largest number of steps that ranks train while they agree on a checkpoint.
constexpr int64_t kLongestMargin = 1000;

class RemoteSink final : public train::RunSink {
 public:
  RemoteSink(Ranks& ranks, transport::FrameHub& hub) : ranks_(ranks), hub_(hub) {}

  void add_step(int64_t step, int worker, const train::StepPart& part) override {
    hub_.note(kLeader, encode_note(StepNote{step, worker, part}));
  }

  void add_evaluation(int64_t step, const std::string& name, int worker,
                      const train::EvalPart& part) override {
    hub_.note(kLeader, encode_note(EvaluationNote{step, worker, name, part}));
  }

  void add_checkpoint(int64_t step, int worker, const checkpoint::WorkerState& state) override {
    hub_.note(kLeader, encode_checkpoint_note(step, worker, state));
  }

  void show_evaluation(int64_t, const std::string&, double) override {}

  bool stops_before(int64_t point) override { return ranks_.stops_before(point); }

  bool checkpoint_due(int64_t completed) override { return ranks_.checkpoint_due(completed); }

 private:
  Ranks& ranks_;
  transport::FrameHub& hub_;
};

// Names the workers that the leader's has waited for, and their ranks.
transport::FrameHub::TellWait tell_wait(const transport::MpiJob& job, events::MessageSink message) {
  return [&job, message = std::move(message)](const std::vector<int>& workers, double seconds) {
    std::vector<std::string> names;
    int rank = 0;
    for (const int worker : workers) {
      while (job.first_member(rank + 1) <= worker) ++rank;
      names.push_back(fmt::format("worker {} on rank {}", worker, rank));
    }
    message(fmt::format("waits for {}, for {} so far", fmt::join(names, ", "),
                        format_seconds(seconds)));
  };
}

}  // namespace

class Ranks::LeaderSink final : public train::RunSink {
 public:
  LeaderSink(Ranks& ranks, train::RunSink& folder)
      : ranks_(ranks),
        folder_(folder),
        writer_([&](int from, const Bytes& note) { ranks.take_part(from, note, folder); },
                [&](const std::string& reason) { ranks.abort(reason); }) {
    ranks.has_sink(&writer_, &folder);
  }
  ~LeaderSink() override { ranks_.has_sink(nullptr, nullptr); }
  LeaderSink(const LeaderSink&) = delete;
  LeaderSink& operator=(const LeaderSink&) = delete;

  void add_step(int64_t step, int worker, const train::StepPart& part) override {
    folder_.add_step(step, worker, part);
  }

  void add_evaluation(int64_t step, const std::string& name, int worker,
                      const train::EvalPart& part) override {
    folder_.add_evaluation(step, name, worker, part);
  }

  void add_checkpoint(int64_t step, int worker, const checkpoint::WorkerState& state) override {
    writer_.wait_until_taken(added_before_last(step));
    folder_.add_checkpoint(step, worker, state);
  }

  void show_evaluation(int64_t step, const std::string& name, double fraction) override {
    folder_.show_evaluation(step, name, fraction);
  }

  bool stops_before(int64_t point) override { return ranks_.stops_before(point); }

  bool checkpoint_due(int64_t completed) override { return ranks_.checkpoint_due(completed); }

 private:
  // Number of parts that had arrived before the previous checkpoint.
  uint64_t added_before_last(int64_t step) {
    const Lock lock(mutex_);
    if (step > step_) {
      step_ = step;
      before_last_ = std::exchange(before_this_, writer_.added());
    }
    return before_last_;
  }

  Ranks& ranks_;
  train::RunSink& folder_;
  Mutex mutex_;
  int64_t step_ GUARDED_BY(mutex_) = -1;  // of the newest checkpoint
  uint64_t before_this_ GUARDED_BY(mutex_) = 0;
  uint64_t before_last_ GUARDED_BY(mutex_) = 0;
  PartWriter writer_;
};

Ranks::Ranks(int workers, std::unique_ptr<transport::MpiJob> job, const std::atomic<bool>* stop,
             events::MessageSink message)
    : workers_(workers), stop_(stop), job_(std::move(job)) {
  if (job_->size() > workers) {
    throw UsageError(
        fmt::format("[train] workers = {} with launcher = \"mpi\" needs a worker for every rank, "
                    "but the job has {} ranks; start it with mpirun -n {} or fewer",
                    workers, job_->size(), workers));
  }
  if (leads()) {
    hub().tell_waits(tell_wait(*job_, std::move(message)));
  } else {
    hub().take_notes([this](int from, Bytes note) { take_note(from, std::move(note)); });
  }
}

Ranks::~Ranks() = default;

std::vector<std::unique_ptr<transport::Communicator>> Ranks::make_communicators() {
  std::vector<std::unique_ptr<transport::Communicator>> communicators;
  for (int i = 0; i < members_here(); ++i) {
    const int member = first_member() + i;
    communicators.push_back(transport::make_hub_communicator(job_->hub(member), workers_, member));
  }
  return communicators;
}

void Ranks::broadcast(const Start& start) { note_all(start); }

void Ranks::note_all(const Note& note) {
  const Bytes bytes = encode_note(note);
  for (int rank = 1; rank < job_->size(); ++rank) hub().note(job_->first_member(rank), bytes);
}

Ranks::Start Ranks::await_broadcast() {
  const auto started = hub().wait_until([this] { return start_known_.load(); });
  if (!started) throw Error(started.error().message);
  return start_;
}

std::unique_ptr<train::RunSink> Ranks::leader_sink(train::RunSink& folder) {
  auto sink = std::make_unique<LeaderSink>(*this, folder);
  hub().take_notes([this](int from, Bytes note) { take_note(from, std::move(note)); });
  return sink;
}

void Ranks::has_sink(PartWriter* writer, const train::RunSink* folder) {
  {
    const Lock lock(writer_mutex_);
    writer_ = writer;
  }
  const Lock lock(agreement_mutex_);
  folder_ = folder;
}

// Called on the thread that moves the frames; anything that may wait for a disk is left to the
// writer.
void Ranks::take_note(int from, Bytes note) {
  if (leads() && is_part(note)) {
    const Lock lock(writer_mutex_);
    if (writer_ != nullptr) writer_->add(from, std::move(note));
    return;
  }
  const Result<Note> known = decode_note(note);
  if (!known) return abort_for(from, known.error().message);
  if (leads() != (from != kLeader)) return abort_for(from, "it is not for this rank");
  if (const auto* start = std::get_if<StartNote>(&*known);
      start != nullptr && !leads() && !start_known_) {
    start_ = *start;
    start_known_ = true;
  } else {
    take_agreement_note(from, *known);
  }
}

void Ranks::abort_for(int from, const std::string& what) {
  abort(fmt::format("a damaged note came from the process of worker {}: {}", from, what));
}

void Ranks::check_worker(int from, int worker) const {
  for (int rank = 0; rank < job_->size(); ++rank) {
    const int end = job_->first_member(rank + 1);
    if (job_->first_member(rank) == from && worker >= from && worker < end) return;
  }
  throw Error(
      fmt::format("a damaged note came from the process of worker {}: it is about worker {}, which "
                  "is not in that process",
                  from, worker));
}

void Ranks::take_part(int from, const Bytes& note, train::RunSink& sink) {
  const Result<Note> known = decode_note(note);
  if (!known) return abort_for(from, known.error().message);
  if (const auto* step = std::get_if<StepNote>(&*known)) {
    check_worker(from, step->worker);
    sink.add_step(step->step, step->worker, step->part);
  } else if (const auto* evaluation = std::get_if<EvaluationNote>(&*known)) {
    check_worker(from, evaluation->worker);
    sink.add_evaluation(evaluation->step, evaluation->name, evaluation->worker, evaluation->part);
  } else if (const auto* checkpoint = std::get_if<CheckpointNote>(&*known)) {
    check_worker(from, checkpoint->worker);
    sink.add_checkpoint(checkpoint->step, checkpoint->worker, checkpoint->state());
  } else {
    ++complete_;
    hub().wake();
  }
}

int64_t Ranks::reach(train::AgreedPoint& agreement, int64_t point) {
  while (true) {
    if (const auto agreed = agreement.reach(point)) return *agreed;
    const auto known = hub().wait_until([&] { return agreement.may_pass(point); });
    if (!known) throw train::Aborted(known.error().message);
  }
}

bool Ranks::stops_before(int64_t point) {
  if (stop_ != nullptr && stop_->load()) {
    const Lock lock(agreement_mutex_);
    if (!std::exchange(requested_, true)) {
      leads() ? ask_for_stop() : hub().note(kLeader, encode_note(StopRequestNote()));
    }
  }
  return point >= reach(stop_agreement_, point);
}

bool Ranks::checkpoint_due(int64_t completed) {
  const int64_t agreed = reach(checkpoint_agreement_, completed);
  if (leads()) ask_for_checkpoint(completed);
  return agreed == completed;
}

void Ranks::ask_for_stop() {
  if (stop_point_.asking) return;
  if (ask(stop_point_, StopAskNote())) note_all(StopAtNote{stop_point_.agreed()});
}

void Ranks::ask_for_checkpoint(int64_t completed) {
  const Lock lock(agreement_mutex_);
  if (first_step_ < 0) first_step_ = completed;
  Poll& poll = checkpoint_step_;
  const bool settled = poll.answers == job_->size();
  if (settled && folder_->checkpoint_written() >= poll.agreed()) poll.asking = false;
  if (poll.asking || !folder_->checkpoint_wanted()) return;
  const double steps_a_second = static_cast<double>(completed - first_step_) / watch_.seconds();
  poll.margin = std::clamp<int64_t>(static_cast<int64_t>(steps_a_second), 1, kLongestMargin);
  if (ask(poll, CheckpointAskNote{poll.margin})) note_all(CheckpointAtNote{poll.agreed()});
}

bool Ranks::ask(Poll& poll, const Note& question) {
  poll.asking = true;
  poll.latest = -1;
  poll.answers = 0;
  note_all(question);
  return count_answer(poll, poll.agreement.promise(poll.margin));
}

bool Ranks::count_answer(Poll& poll, int64_t latest) {
  poll.latest = std::max(poll.latest, latest);
  if (++poll.answers < job_->size()) return false;
  poll.agreement.settle(poll.agreed());
  hub().wake();
  return true;
}

void Ranks::take_agreement_note(int from, const Note& note) {
  const Lock lock(agreement_mutex_);
  leads() ? take_answer(from, note) : take_question(from, note);
}

void Ranks::take_answer(int from, const Note& note) {
  const auto awaited = [&](const Poll& poll) { return poll.asking && poll.answers < job_->size(); };
  const auto* stop = std::get_if<StopAnswerNote>(&note);
  const auto* checkpoint = std::get_if<CheckpointAnswerNote>(&note);
  if (std::holds_alternative<StopRequestNote>(note)) {
    ask_for_stop();
  } else if (stop != nullptr && awaited(stop_point_)) {
    if (count_answer(stop_point_, stop->point)) note_all(StopAtNote{stop_point_.agreed()});
  } else if (checkpoint != nullptr && awaited(checkpoint_step_)) {
    if (count_answer(checkpoint_step_, checkpoint->step)) {
      note_all(CheckpointAtNote{checkpoint_step_.agreed()});
    }
  } else {
    abort_for(from, fmt::format("kind {} is not for this rank", note.index()));
  }
}

void Ranks::take_question(int from, const Note& note) {
  if (std::holds_alternative<StopAskNote>(note)) {
    hub().note(kLeader, encode_note(StopAnswerNote{stop_point_.agreement.promise(0)}));
  } else if (const auto* ask = std::get_if<CheckpointAskNote>(&note)) {
    const int64_t latest = checkpoint_step_.agreement.promise(ask->margin);
    hub().note(kLeader, encode_note(CheckpointAnswerNote{latest}));
  } else if (const auto* stop = std::get_if<StopAtNote>(&note)) {
    stop_point_.agreement.settle(stop->point);
    hub().wake();
  } else if (const auto* checkpoint = std::get_if<CheckpointAtNote>(&note)) {
    checkpoint_step_.agreement.settle(checkpoint->step);
    hub().wake();
  } else {
    abort_for(from, fmt::format("kind {} is not for this rank", note.index()));
  }
}

void Ranks::wait_for_parts() {
  const auto complete = hub().wait_until([this] { return complete_ == job_->size() - 1; });
  if (!complete) throw Error(complete.error().message);
}

std::unique_ptr<train::RunSink> Ranks::remote_sink() {
  return std::make_unique<RemoteSink>(*this, hub());
}

void Ranks::all_handed_in() { hub().note(kLeader, encode_note(CompleteNote())); }

}  // namespace thinwire::launch
