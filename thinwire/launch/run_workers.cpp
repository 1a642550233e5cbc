#include "thinwire/launch/run_workers.h"

#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/base/plain_message.h"

namespace thinwire::launch {
namespace {

// How the workers of this process ended.
class Ending {
 public:
  void reached(const train::RunEnd& end) {
    const std::lock_guard lock(mutex_);
    end_ = end;
  }
  void failed(std::exception_ptr reason) { keep(failure_, std::move(reason)); }
  // The reason is another worker's exception.
  void aborted(std::exception_ptr reason) { keep(aborted_, std::move(reason)); }
  train::RunEnd end() const {
    if (failure_) std::rethrow_exception(failure_);
    if (aborted_) std::rethrow_exception(aborted_);
    return end_;
  }

 private:
  void keep(std::exception_ptr& kept, std::exception_ptr reason) {
    const std::lock_guard lock(mutex_);
    if (!kept) kept = std::move(reason);
  }

  std::mutex mutex_;
  std::exception_ptr failure_;
  std::exception_ptr aborted_;
  train::RunEnd end_;
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

train::RunEnd run_workers(const train::RunContext& context,
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
