#include "thinwire/train/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/plain_message.h"
#include "thinwire/train/worker.h"

namespace thinwire::train {
namespace {

// The first byte of a note.
enum NoteKind : uint8_t {
  kStart,
  kStep,
  kEvaluation,
  kCheckpoint,
  kComplete,
  kStopWish,    // to the leader: somebody wants the run to end
  kStopAsk,     // from the leader: which step is the latest you may train?
  kStopAnswer,  // to the leader: that step
  kStopAt,      // from the leader: the first step that nobody trains
};

constexpr int kLeader = 0;

template <typename T>
std::vector<T> take_values(ByteReader& reader) {
  const auto bytes = reader.get_bytes(reader.get<uint64_t>());
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <typename T>
void put_values(ByteWriter& writer, std::span<const T> values) {
  writer.put(uint64_t{values.size_bytes()});
  writer.put_bytes(as_bytes(values));
}

class RemoteDesk final : public Desk {
 public:
  RemoteDesk(Ranks& ranks, transport::FrameHub& hub) : ranks_(ranks), hub_(hub) {}

  void add_step(int64_t step, int worker, const StepPart& part) override {
    Bytes note = {kStep};
    ByteWriter writer(note);
    writer.put(step);
    writer.put(int32_t{worker});
    writer.put(part);
    hub_.note(kLeader, note);
  }

  void add_evaluation(int64_t step, const std::string& name, int worker,
                      const EvalPart& part) override {
    Bytes note = {kEvaluation};
    ByteWriter writer(note);
    writer.put(step);
    writer.put(int32_t{worker});
    writer.put_string(name);
    writer.put(part);
    hub_.note(kLeader, note);
  }

  void add_checkpoint(int64_t step, int worker, const WorkerState& state) override {
    Bytes note = {kCheckpoint};
    ByteWriter writer(note);
    writer.put(step);
    writer.put(int32_t{worker});
    writer.put(static_cast<uint32_t>(state.local.size()));
    for (const NamedValues& part : state.local) {
      writer.put_string(part.name);
      put_values(writer, part.values);
    }
    writer.put(static_cast<uint32_t>(state.travelling.size()));
    for (const NamedBytes& part : state.travelling) {
      writer.put_string(part.name);
      put_values(writer, part.bytes);
    }
    hub_.note(kLeader, note);
  }

  bool stops_before(int64_t step) override { return ranks_.stops_before(step); }

 private:
  Ranks& ranks_;
  transport::FrameHub& hub_;
};

}  // namespace

Ranks::Ranks(int workers, std::vector<links::Link> links, const std::atomic<bool>* stop)
    : workers_(workers), stop_(stop), job_(transport::join_mpi_job(workers, std::move(links))) {
  if (job_->size() > workers) {
    throw UsageError(
        fmt::format("[train] workers = {} with engine = \"mpi\" needs a worker for every rank, but "
                    "the job has {} ranks; start it with mpirun -n {} or less",
                    workers, job_->size(), workers));
  }
  if (leads()) return;
  hub().take_notes([this](int, std::span<const uint8_t> note) {
    ByteReader reader(note);
    const auto kind = reader.get<uint8_t>();
    if (kind != kStart) return take_stop_note(kind, reader);
    start_.assign(note.begin(), note.end());
    told_ = true;
  });
}

Ranks::~Ranks() = default;

std::vector<std::unique_ptr<transport::Peers>> Ranks::make_peers() {
  std::vector<std::unique_ptr<transport::Peers>> peers;
  for (int i = 0; i < members_here(); ++i) {
    const int member = first_member() + i;
    peers.push_back(transport::make_hub_peers(job_->hub(member), workers_, member));
  }
  return peers;
}

void Ranks::tell(const Start& start) {
  Bytes note = {kStart};
  ByteWriter writer(note);
  writer.put(start.finished);
  writer.put_string(start.checkpoint);
  note_all(note);
}

void Ranks::note_all(const Bytes& note) {
  for (int rank = 1; rank < job_->size(); ++rank) hub().note(job_->first_member(rank), note);
}

Ranks::Start Ranks::hear() {
  const auto heard = hub().wait_until([this] { return told_.load(); });
  if (!heard) throw Error(heard.error().message);
  ByteReader reader(start_);
  reader.get<uint8_t>();
  Start start;
  start.finished = reader.get<bool>();
  start.checkpoint = reader.get_string();
  return start;
}

Ranks::Service::Service(Ranks& ranks, Desk& desk) : ranks_(ranks) {
  ranks_.desk_ = &desk;
  ranks_.hub().take_notes([&ranks](int, std::span<const uint8_t> note) {
    try {
      ranks.take_note(note);
    } catch (const std::exception& error) {
      ranks.abort(plain_message(error));
    }
  });
}

Ranks::Service::~Service() {
  const std::lock_guard lock(ranks_.desk_mutex_);
  ranks_.desk_ = nullptr;
}

void Ranks::take_note(std::span<const uint8_t> note) {
  ByteReader reader(note);
  const auto kind = reader.get<uint8_t>();
  if (kind >= kStopWish) return take_stop_note(kind, reader);
  if (kind == kComplete) {
    ++complete_;
    return;
  }
  const std::lock_guard lock(desk_mutex_);
  if (desk_ != nullptr) take_part(kind, reader);
}

void Ranks::take_part(uint8_t kind, ByteReader& reader) {
  const auto step = reader.get<int64_t>();
  const auto worker = reader.get<int32_t>();
  if (kind == kCheckpoint) {
    take_checkpoint(step, worker, reader);
  } else if (kind == kStep) {
    desk_->add_step(step, worker, reader.get<StepPart>());
  } else {
    const std::string name = reader.get_string();
    desk_->add_evaluation(step, name, worker, reader.get<EvalPart>());
  }
}

void Ranks::take_checkpoint(int64_t step, int worker, ByteReader& note) {
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, Bytes> bytes;
  WorkerState state;
  for (auto left = note.get<uint32_t>(); left > 0; --left) {
    std::string name = note.get_string();
    const auto& held = values[name] = take_values<float>(note);
    state.local.push_back({std::move(name), held});
  }
  for (auto left = note.get<uint32_t>(); left > 0; --left) {
    std::string name = note.get_string();
    const auto& held = bytes[name] = take_values<uint8_t>(note);
    state.travelling.push_back({std::move(name), held});
  }
  desk_->add_checkpoint(step, worker, state);
}

bool Ranks::stops_before(int64_t step) {
  std::unique_lock lock(stop_mutex_);
  if (stop_ != nullptr && stop_->load() && !stopping_ && !wished_) {
    wished_ = true;
    leads() ? ask_for_steps() : hub().note(kLeader, Bytes{kStopWish});
  }
  if (stopping_) {
    lock.unlock();
    const auto known = hub().wait_until([this] { return stop_step_ >= 0; });
    if (!known) throw Aborted(known.error().message);
    lock.lock();
    if (step >= stop_step_) return true;
  }
  allowed_step_ = std::max(allowed_step_, step);
  return false;
}

void Ranks::ask_for_steps() {
  if (stopping_) return;
  stopping_ = true;
  note_all(Bytes{kStopAsk});
  hear_step(allowed_step_);
}

void Ranks::hear_step(int64_t allowed) {
  latest_step_ = std::max(latest_step_, allowed);
  if (++answers_ < job_->size()) return;
  stop_step_ = latest_step_ + 1;
  Bytes note = {kStopAt};
  ByteWriter(note).put(stop_step_.load());
  note_all(note);
}

void Ranks::take_stop_note(uint8_t kind, ByteReader& note) {
  const std::lock_guard lock(stop_mutex_);
  if (kind == kStopWish) ask_for_steps();
  if (kind == kStopAnswer) hear_step(note.get<int64_t>());
  if (kind == kStopAt) stop_step_ = note.get<int64_t>();
  if (kind != kStopAsk) return;
  stopping_ = true;
  Bytes answer = {kStopAnswer};
  ByteWriter(answer).put(allowed_step_);
  hub().note(kLeader, answer);
}

void Ranks::wait_for_parts() {
  const auto complete = hub().wait_until([this] { return complete_ == job_->size() - 1; });
  if (!complete) throw Error(complete.error().message);
}

std::unique_ptr<Desk> Ranks::remote_desk() { return std::make_unique<RemoteDesk>(*this, hub()); }

void Ranks::all_handed_in() { hub().note(kLeader, Bytes{kComplete}); }

}  // namespace thinwire::train
