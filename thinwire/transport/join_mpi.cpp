#include <fmt/format.h>
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <deque>
#include <future>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "thinwire/transport/mpi.h"

namespace thinwire::transport {
namespace {

constexpr int kTag = 1;
// How long the thread sleeps when there is nothing to do: what a message may be late by.
constexpr std::chrono::microseconds kNap(200);

// A frame on its way; MPI reads it until the request is complete.
struct Outgoing {
  int to;
  Bytes frame;
  MPI_Request request = MPI_REQUEST_NULL;
};

class Job final : public MpiJob {
 public:
  Job() {
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
  const std::shared_ptr<FrameHub>& hub() const override { return hub_; }

 private:
  void run(std::promise<void>& joined) {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    hub_ = std::make_shared<FrameHub>(
        rank_, size_, [this](int to, Bytes frame) { enqueue(to, std::move(frame)); });
    joined.set_value();
    move_frames();
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }

  void enqueue(int to, Bytes frame) {
    if (frame.size() > INT_MAX) {
      throw Error(fmt::format("a message of {} bytes is more than MPI sends at once ({})",
                              frame.size(), INT_MAX));
    }
    const std::lock_guard lock(mutex_);
    queue_.push_back({to, std::move(frame)});
    wake_.notify_all();
  }

  // Until this rank is done, all it sent has gone, and all others are as far.
  void move_frames() {
    MPI_Request all_done = MPI_REQUEST_NULL;
    for (int over = 0; over == 0;) {
      const bool stopping = stop_;
      bool active = send_queued();
      active = receive_one() || active;
      active = hub_->work() || active;
      if (all_done == MPI_REQUEST_NULL && stopping && !active && sending_.empty()) {
        MPI_Ibarrier(comm_, &all_done);
      }
      if (all_done != MPI_REQUEST_NULL) MPI_Test(&all_done, &over, MPI_STATUS_IGNORE);
      if (!active && over == 0) nap();
    }
  }

  bool send_queued() {
    std::deque<Outgoing> queued;
    {
      const std::lock_guard lock(mutex_);
      queued.swap(queue_);
    }
    for (Outgoing& one : queued) {
      sending_.push_back(std::move(one));
      Outgoing& sent = sending_.back();
      MPI_Isend(sent.frame.data(), static_cast<int>(sent.frame.size()), MPI_BYTE, sent.to, kTag,
                comm_, &sent.request);
    }
    const size_t before = sending_.size();
    sending_.remove_if([](Outgoing& one) {
      int complete = 0;
      MPI_Test(&one.request, &complete, MPI_STATUS_IGNORE);
      return complete != 0;
    });
    return !queued.empty() || sending_.size() < before;
  }

  bool receive_one() {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    MPI_Improbe(MPI_ANY_SOURCE, kTag, comm_, &found, &message, &status);
    if (found == 0) return false;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    Bytes frame(static_cast<size_t>(bytes));
    MPI_Mrecv(frame.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    hub_->deliver(status.MPI_SOURCE, std::move(frame));
    return true;
  }

  void nap() {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kNap, [this] { return !queue_.empty(); });
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::shared_ptr<FrameHub> hub_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Outgoing> queue_;
  std::list<Outgoing> sending_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<MpiJob> join_mpi_job() { return std::make_unique<Job>(); }

}  // namespace thinwire::transport
