#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/mutex.h"
#include "thinwire/transport/mpi.h"
#include "thinwire/transport/pacer.h"

namespace thinwire::transport {
namespace {

// Tags of a frame's pieces: the last piece, and pieces followed by more. A receiver gets them in
// the order of sending, as MPI guarantees for messages that match the same receive.
constexpr int kLast = 1;
constexpr int kMore = 2;
// How long the thread sleeps when there is nothing to do: a message may be late by this much.
constexpr std::chrono::microseconds kPollInterval(200);

// A frame to be sent, and when it was handed over.
struct Queued {
  int rank;
  Bytes frame;
  double at;
};

// A piece of a frame being sent; MPI reads it until the request is complete.
struct Outgoing {
  int rank;
  std::shared_ptr<const Bytes> frame;
  size_t begin;
  size_t bytes;
  double leaves;
  MPI_Request request = MPI_REQUEST_NULL;
};

struct Incoming {
  int rank;  // the sender
  Bytes piece;
  bool last;
};

class Job final : public MpiJob {
 public:
  Job(int members, std::vector<links::Link> links) : members_(members), links_(std::move(links)) {
    std::promise<void> joined;
    std::future<void> when_joined = joined.get_future();
    thread_ = std::thread([this, &joined] { run(joined); });
    when_joined.get();
  }
  ~Job() override {
    stop_ = true;
    wake_.notify_all();
    thread_.join();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int first_member(int rank) const override {
    return static_cast<int>(int64_t{members_} * rank / size_);
  }
  const std::shared_ptr<FrameHub>& hub(int member) const override {
    return hubs_[static_cast<size_t>(member - first_member(rank_))];
  }

 private:
  void run(std::promise<void>& joined) {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    if (members_ == 0) members_ = size_;
    links_.resize(static_cast<size_t>(members_));
    arrived_.resize(static_cast<size_t>(size_));
    pacer_.emplace(link_of(rank_));
    for (int member = first_member(rank_); member < first_member(rank_ + 1); ++member) {
      hubs_.push_back(std::make_shared<FrameHub>(
          member, members_, [this](int to, Bytes frame) { enqueue(to, std::move(frame)); }));
    }
    joined.set_value();
    move_frames();
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }

  int rank_of(int member) const {
    int rank = 0;
    while (first_member(rank + 1) <= member) ++rank;
    return rank;
  }

  void enqueue(int to, Bytes frame) {
    const int rank = rank_of(to);
    const Lock lock(mutex_);
    if (rank == rank_) {
      inbox_.push_back(std::move(frame));
    } else {
      queue_.push_back({rank, std::move(frame), monotonic_seconds()});
    }
    wake_.notify_all();
  }

  // Runs until this rank is done, everything it sent has left, and all others have got as far.
  void move_frames() {
    MPI_Request all_done = MPI_REQUEST_NULL;
    for (int over = 0; over == 0;) {
      const bool stopping = stop_;
      cut_queued();
      bool active = send_due();
      active = receive_one() || active;
      active = hand_in_due() || active;
      active = deliver_here() || active;
      for (const auto& hub : hubs_) active = hub->work() || active;
      if (all_done == MPI_REQUEST_NULL && stopping && !active && leaving_.empty() &&
          sending_.empty()) {
        MPI_Ibarrier(comm_, &all_done);
      }
      if (all_done != MPI_REQUEST_NULL) MPI_Test(&all_done, &over, MPI_STATUS_IGNORE);
      if (!active && over == 0) wait_briefly();
    }
  }

  void cut_queued() {
    std::deque<Queued> queued;
    {
      const Lock lock(mutex_);
      queued.swap(queue_);
    }
    for (Queued& one : queued) {
      const auto frame = std::make_shared<const Bytes>(std::move(one.frame));
      for (size_t begin = 0; begin < frame->size(); begin += pacer_->piece_bytes()) {
        const size_t bytes = std::min(pacer_->piece_bytes(), frame->size() - begin);
        leaving_.push_back({one.rank, frame, begin, bytes, pacer_->leave(one.at, bytes)});
      }
    }
  }

  bool send_due() {
    const double now = monotonic_seconds();
    bool active = false;
    for (; !leaving_.empty() && leaving_.front().leaves <= now; leaving_.pop_front()) {
      sending_.push_back(std::move(leaving_.front()));
      Outgoing& sent = sending_.back();
      const bool last = sent.begin + sent.bytes == sent.frame->size();
      MPI_Isend(sent.frame->data() + sent.begin, static_cast<int>(sent.bytes), MPI_BYTE, sent.rank,
                last ? kLast : kMore, comm_, &sent.request);
      active = true;
    }
    const size_t before = sending_.size();
    sending_.remove_if([](Outgoing& one) {
      int complete = 0;
      MPI_Test(&one.request, &complete, MPI_STATUS_IGNORE);
      return complete != 0;
    });
    return active || sending_.size() < before;
  }

  bool receive_one() {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &found, &message, &status);
    if (found == 0) return false;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    Bytes piece(static_cast<size_t>(bytes));
    MPI_Mrecv(piece.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    const int from = status.MPI_SOURCE;
    const double delay = (link_of(from).delay_s + link_of(rank_).delay_s) / 2;
    const double at = pacer_->arrive(monotonic_seconds(), piece.size()) + delay;
    held_.insert({at, Incoming{from, std::move(piece), status.MPI_TAG == kLast}});
    return true;
  }

  bool hand_in_due() {
    const double now = monotonic_seconds();
    bool active = false;
    for (; !held_.empty() && held_.begin()->first <= now; held_.erase(held_.begin())) {
      Incoming& one = held_.begin()->second;
      Bytes& frame = arrived_[static_cast<size_t>(one.rank)];
      if (frame.empty()) {
        frame = std::move(one.piece);
      } else {
        frame.insert(frame.end(), one.piece.begin(), one.piece.end());
      }
      if (one.last) deliver(one.rank, std::exchange(frame, {}));
      active = true;
    }
    return active;
  }

  void deliver(int rank, Bytes frame) {
    deliver_frame(hubs_, first_member(rank), first_member(rank + 1), std::move(frame));
  }

  // Delivers frames between members of this rank.
  bool deliver_here() {
    std::deque<Bytes> arrived;
    {
      const Lock lock(mutex_);
      arrived.swap(inbox_);
    }
    for (Bytes& frame : arrived) deliver(rank_, std::move(frame));
    return !arrived.empty();
  }

  const links::Link& link_of(int rank) const {
    return links_[static_cast<size_t>(first_member(rank))];
  }

  void wait_briefly() {
    const Lock lock(mutex_);
    if (queue_.empty() && inbox_.empty()) wake_.wait_for(mutex_, kPollInterval);
  }

  int members_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::vector<std::shared_ptr<FrameHub>> hubs_;  // of this rank's members
  Mutex mutex_;
  Condition wake_;
  std::deque<Bytes> inbox_ GUARDED_BY(mutex_);  // between members of this rank
  std::deque<Queued> queue_ GUARDED_BY(mutex_);
  std::vector<links::Link> links_;  // by member
  std::optional<Pacer> pacer_;
  std::deque<Outgoing> leaving_;
  std::list<Outgoing> sending_;
  std::multimap<double, Incoming> held_;  // by time of arrival
  std::vector<Bytes> arrived_;            // pieces of frames, by rank
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<MpiJob> join_mpi_job(int members, std::vector<links::Link> links) {
  return std::make_unique<Job>(members, std::move(links));
}

}  // namespace thinwire::transport
