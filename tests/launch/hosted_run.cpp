#include "tests/launch/hosted_run.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/method/architectures.h"
#include "thinwire/train/resolve.h"
#include "thinwire/transport/nkey.h"

namespace thinwire::launch {
namespace {

constexpr std::chrono::seconds kTooLong(240);
constexpr uint64_t kRun = 7;

std::unique_ptr<Signer> signer_of(uint8_t number) {
  Seed seed{};
  seed[0] = number;
  return make_signer(seed);
}

config::Recipe resolved(config::Recipe recipe, const data::Vocabulary& vocabulary) {
  train::resolve(recipe, vocabulary);
  return recipe;
}

}  // namespace

HostedRun::HostedRun(const config::Recipe& recipe, fs::path folder, membership::Options options,
                     const transport::MemoryOptions& network)
    : recipe_(recipe),
      folder_(std::move(folder)),
      vocabulary_(data::Vocabulary::load(recipe.data.dir)),
      network_(network),
      clock_([this] { run_network(); }),
      resolved_(resolved(recipe, *vocabulary_)),
      signer_(signer_of(200)),
      courier_(network_.connect(transport::participant_name(signer_->key()))),
      plan_(std::make_unique<membership::RecipePlan>(resolved_, method::tensors_of(resolved_))),
      beginning_(member::begin_run(resolved_, *vocabulary_, {}, kRun, {signer_->key()})) {
  std::promise<void> stored;
  courier_->put(beginning_.weights, transport::Priority::kBulk,
                [&stored](const Result<void>&) { stored.set_value(); });
  stored.get_future().wait();
  serve::HostHooks hooks;
  hooks.progress = [this](const membership::State& state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
    for (const membership::Opening& opening : state.open) {
      largest_roster_ = std::max(largest_roster_, opening.roster.size());
    }
    changed_.notify_all();
  };
  host_ = std::make_unique<serve::CoordinatorHost>(
      *courier_, *signer_, *plan_,
      serve::HostOptions{options, beginning_.founding, false, std::move(hooks)});
  host_thread_ = std::thread([this] { host_->run(stop_host_); });
}

HostedRun::~HostedRun() {
  for (auto& [number, member] : members_) member->stop = true;
  for (auto& [number, member] : members_) {
    if (member->thread.joinable()) member->thread.join();
    member->courier.reset();
  }
  stop_host_ = true;
  if (host_thread_.joinable()) host_thread_.join();
  host_.reset();
  courier_.reset();
  ends_ = true;
  clock_.join();
}

// Virtual time follows the real one, because members really compute.
void HostedRun::run_network() {
  const Stopwatch watch;
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  while (!ends_) {
    network_.run_until(watch.seconds());
    never.wait_for(lock, std::chrono::microseconds(200));
  }
}

void HostedRun::start(int number, member::MemberHooks hooks) {
  auto& member = members_[number];
  if (member != nullptr && member->thread.joinable()) member->thread.join();
  member = std::make_unique<Participant>();
  member->signer = signer_of(static_cast<uint8_t>(number));
  member->courier = network_.connect(transport::participant_name(member->signer->key()));
  member::MemberOptions options{resolved_, beginning_.founding, 0, &member->stop, std::move(hooks)};
  options.recipe.run.dir = (folder_ / ("member" + std::to_string(number))).string();
  member->thread = std::thread([own = member.get(), options = std::move(options)] {
    try {
      own->result = member::run_member(*own->courier, *own->signer, options);
    } catch (...) {
      own->failure = std::current_exception();
    }
  });
}

member::MemberResult HostedRun::leave(int number) {
  participant(number).stop = true;
  return wait(number);
}

void HostedRun::kill(int number) {
  network_.disconnect(participant(number).courier->self());
  participant(number).stop = true;
  participant(number).thread.join();
  members_.erase(number);
}

member::MemberResult HostedRun::wait(int number) {
  Participant& member = participant(number);
  if (member.thread.joinable()) member.thread.join();
  if (member.failure) std::rethrow_exception(member.failure);
  return member.result;
}

void HostedRun::wait_until(const std::function<bool(const membership::State&)>& wanted) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kTooLong, [&] { return wanted(state_); })) {
    throw Error("the run did not get there in time");
  }
}

size_t HostedRun::largest_roster() {
  const std::lock_guard lock(mutex_);
  return largest_roster_;
}

uint64_t HostedRun::newest_snapshot() {
  const std::lock_guard lock(mutex_);
  return state_.snapshots.rbegin()->first;
}

void HostedRun::wait_until_over() {
  wait_until([](const membership::State& state) { return state.finished; });
  host_thread_.join();
}

}  // namespace thinwire::launch
