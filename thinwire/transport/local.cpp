// The communicators of workers that are threads of one process.
#include <fmt/format.h>

#include <thread>
#include <utility>

#include "thinwire/transport/communicator.h"
#include "thinwire/transport/hub.h"

namespace thinwire::transport {
namespace {

// All members of a run. Sums are formed during computation by a thread of the hub, which is started
// when the first sum can proceed.
class LocalHub final : public Hub {
 public:
  LocalHub(int members, std::shared_ptr<Carrier> carrier)
      : Hub(members_below(members), members_below(members), std::move(carrier)),
        alone_(members == 1) {}
  ~LocalHub() override {
    {
      const Lock lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }
  LocalHub(const LocalHub&) = delete;
  LocalHub& operator=(const LocalHub&) = delete;

 private:
  void on_work() override REQUIRES(mutex_) {
    if (!alone_ && !thread_.joinable()) thread_ = std::thread([this] { form_sums(); });
  }

  void form_sums() {
    CodedSum memory;
    const Lock lock(mutex_);
    while (!stop_) {
      if (!work(memory)) changed_.wait(mutex_);
    }
  }

  const bool alone_;  // a single member forms its sums when it waits for them
  bool stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_local_communicators(
    int members, std::shared_ptr<Carrier> carrier) {
  if (members < 1) throw Error(fmt::format("a run needs at least 1 worker, got {}", members));
  if (carrier == nullptr) carrier = std::make_shared<Carrier>();
  const auto hub = std::make_shared<LocalHub>(members, std::move(carrier));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int member = 0; member < members; ++member) {
    communicators.push_back(make_hub_communicator(hub, members, member));
  }
  return communicators;
}

}  // namespace thinwire::transport
