#include "tests/launch/hosted_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <span>
#include <thread>
#include <utility>

#include "tests/launch/passing_courier.h"
#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/nkey.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/serve/payload_filter.h"
#include "thinwire/train/initial_model.h"
#include "thinwire/train/resolve.h"
#include "thinwire/train/site.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::launch {
namespace {

constexpr double kTooLongSeconds = 240;
constexpr std::chrono::milliseconds kLookAgain(20);

std::unique_ptr<Signer> signer_of(uint8_t number) {
  Seed seed{};
  seed[0] = number;
  return make_signer(seed);
}

// Dies at a request.
class DyingCourier final : public PassingCourier {
 public:
  DyingCourier(std::unique_ptr<Courier> to, int requests, std::function<void()> die)
      : PassingCourier(std::move(to)), left_(requests), die_(std::move(die)) {}

  transport::BlobId put(std::shared_ptr<const Bytes> blob, transport::Priority priority,
                        Done done) override {
    count_down();
    return PassingCourier::put(std::move(blob), priority, std::move(done));
  }
  void get_part(const Sha256& blob, const transport::BlobId& part, std::vector<std::string> holders,
                transport::Priority priority, Got got) override {
    count_down();
    PassingCourier::get_part(blob, part, std::move(holders), priority, std::move(got));
  }
  void publish(const std::string& topic, Bytes statement) override {
    count_down();
    PassingCourier::publish(topic, std::move(statement));
  }

 private:
  void count_down() {
    if (--left_ == 0) die_();
  }

  std::atomic<int> left_;
  const std::function<void()> die_;
};

// Leaves the processor to the members for a moment.
constexpr uint64_t kSketchSeed = 1;

void pause() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::chrono::microseconds(200));
}

// Takes part as a site; its other ranks have ended when this returns.
member::MemberResult run_site(transport::Courier& courier, const Signer& signer,
                              member::MemberOptions options,
                              std::span<const std::unique_ptr<transport::Communicator>> ranks) {
  std::vector<std::jthread> others;
  for (const auto& rank : ranks.subspan(1)) {
    others.emplace_back([&rank] { train::help_site(*rank); });
  }
  train::Site site(*ranks.front());
  options.site = &site;
  return member::run_member(courier, signer, std::move(options));
}

std::unique_ptr<data::Vocabulary> vocabulary_of(const config::Recipe& recipe) {
  return method::is_external(recipe) ? nullptr : data::Vocabulary::load(recipe.data.dir);
}

config::Recipe resolved(config::Recipe recipe, const data::Vocabulary* vocabulary) {
  if (vocabulary != nullptr) train::take_initial_model(recipe);
  vocabulary == nullptr ? train::resolve_machine(recipe) : train::resolve(recipe, *vocabulary);
  return recipe;
}

}  // namespace

HostedRun::HostedRun(const config::Recipe& recipe, fs::path folder, membership::Options options,
                     const transport::MemoryOptions& network)
    : recipe_(recipe),
      folder_(std::move(folder)),
      vocabulary_(vocabulary_of(recipe)),
      network_(network),
      clock_([this] { run_network(); }),
      resolved_(resolved(recipe, vocabulary_.get())),
      options_(std::move(options)),
      signer_(signer_of(200)),
      courier_(network_.connect(participant_name(signer_->key()))),
      plan_(std::make_unique<membership::RecipePlan>(resolved_, method::tensors_of(resolved_))),
      initial_state_(member::make_initial_state(resolved_, vocabulary_.get(), {}, kRun,
                                                {signer_->key()}, [](std::string_view) {})) {
  std::promise<void> stored;
  courier_->put(initial_state_.weights, transport::Priority::kBulk,
                [&stored](const Result<void>&) { stored.set_value(); });
  stored.get_future().wait();
  serve::HostHooks hooks;
  hooks.check = serve::payload_check(resolved_, *plan_, kRun, kSketchSeed);
  hooks.progress = [this](const membership::State& state, bool /*complete*/) {
    const std::lock_guard lock(mutex_);
    state_ = state;
    for (const membership::Opening& opening : state.open) {
      largest_roster_ = std::max(largest_roster_, opening.roster.size());
    }
    changed_.notify_all();
  };
  hooks.is_auditor = [this](const PublicKey& key) {
    const std::lock_guard lock(mutex_);
    return auditors_.contains(key);
  };
  hooks.message = [this](const std::string& text) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(text);
  };
  hooks.loss = [this](const membership::Loss& loss) {
    const std::lock_guard lock(mutex_);
    losses_.push_back(loss);
  };
  hooks.record = [this](const membership::Record& record, bool) {
    if (!record.closing) return;
    const std::lock_guard lock(mutex_);
    for (const Commit& commit : record.closing->commits) {
      committed_.insert(committed_.end(), commit.contributions.begin(), commit.contributions.end());
      counted_late_ += static_cast<size_t>(std::ranges::count_if(
          commit.contributions,
          [&](const Contribution& one) { return one.round < commit.operation.round; }));
    }
  };
  host_ = std::make_unique<serve::CoordinatorHost>(
      *courier_, *signer_, *plan_,
      serve::HostOptions{.membership = options_,
                         .founding = initial_state_.founding,
                         .hooks = std::move(hooks),
                         .sums = sync::sum_rule(resolved_)});
  host_thread_ = std::thread([this] { run_host(); });
}

HostedRun::~HostedRun() {
  release();
  for (auto& [number, member] : members_) member->stop = true;
  for (auto& [number, member] : members_) {
    if (member->thread.joinable()) member->thread.join();
    member->courier.reset();
  }
  stop_host_ = true;
  host_thread_.join();
  host_.reset();
  courier_.reset();
  ends_ = true;
  clock_.join();
}

// Virtual time follows the real one, because members really compute.
void HostedRun::run_network() {
  const Stopwatch watch;
  while (!ends_) {
    network_.run_until(watch.seconds());
    pause();
  }
}

// It goes on when the run is over, for members that come late. Its clock gains in small steps,
// because a coordinator whose clock jumps knows that it was asleep.
void HostedRun::run_host() {
  double gained_s = 0;
  while (!stop_host_) {
    if (clock_races_) gained_s += options_.retry_s() / 2;
    host_->tick(monotonic_seconds() + gained_s);
    pause();
  }
}

void HostedRun::hold_at(int64_t step) {
  const std::lock_guard lock(mutex_);
  held_at_ = step;
}

void HostedRun::release() {
  const std::lock_guard lock(mutex_);
  held_at_.reset();
  changed_.notify_all();
}

void HostedRun::wait_if_held(const member::Activity& activity, int64_t step,
                             const std::atomic<bool>& stop) {
  if (activity.kind != member::ActivityKind::kTraining || activity.step < step) return;
  std::unique_lock lock(mutex_);
  while (held_at_ && !stop) changed_.wait_for(lock, kLookAgain);
}

void HostedRun::start(int number) {
  members_.erase(number);  // its connection of before
  auto member = std::make_unique<Participant>();
  member->signer = signer_of(static_cast<uint8_t>(number));
  member->courier = network_.connect(participant_name(member->signer->key()));
  start(number, std::move(member));
}

void HostedRun::start_dying(int number, int last_request) {
  auto member = std::make_unique<Participant>();
  member->signer = signer_of(static_cast<uint8_t>(number));
  const std::string name = participant_name(member->signer->key());
  member->courier = std::make_unique<DyingCourier>(network_.connect(name), last_request,
                                                   [this, name, own = member.get()] {
                                                     network_.disconnect(name);
                                                     own->stop = true;
                                                   });
  start(number, std::move(member));
}

void HostedRun::start_forging(int number, ForgingCourier::Forge forge) {
  auto member = std::make_unique<Participant>();
  member->signer = signer_of(static_cast<uint8_t>(number));
  member->courier =
      std::make_unique<ForgingCourier>(network_.connect(participant_name(member->signer->key())),
                                       *member->signer, kRun, std::move(forge));
  start(number, std::move(member));
}

void HostedRun::start_withholding(int number, WithholdingCourier::Passes passes) {
  auto member = std::make_unique<Participant>();
  member->signer = signer_of(static_cast<uint8_t>(number));
  member->courier = std::make_unique<WithholdingCourier>(
      network_.connect(participant_name(member->signer->key())), kRun, std::move(passes));
  start(number, std::move(member));
}

void HostedRun::start_straying(int number) {
  auto member = std::make_unique<Participant>();
  member->signer = signer_of(static_cast<uint8_t>(number));
  member->courier = network_.connect(participant_name(member->signer->key()));
  member::MemberOptions options = options_of(number, *member);
  options.recipe.run.seed += 1;  // of the order of the rows
  start(std::move(options), number, std::move(member));
}

void HostedRun::start_with_base(int number, const fs::path& base) {
  members_.erase(number);  // its connection of before
  auto member = std::make_unique<Participant>();
  member->signer = signer_of(static_cast<uint8_t>(number));
  member->courier = network_.connect(participant_name(member->signer->key()));
  member::MemberOptions options = options_of(number, *member);
  options.recipe.train.init = base.string();
  start(std::move(options), number, std::move(member));
}

void HostedRun::start_site(int number, int ranks) {
  members_.erase(number);  // its connection of before
  auto member = std::make_unique<Participant>();
  member->signer = signer_of(static_cast<uint8_t>(number));
  member->courier = network_.connect(participant_name(member->signer->key()));
  member->ranks = transport::make_local_communicators(ranks);
  start(number, std::move(member));
}

void HostedRun::admit_auditor(int number) {
  const std::lock_guard lock(mutex_);
  auditors_.insert(signer_of(static_cast<uint8_t>(number))->key());
}

void HostedRun::start_auditor(int number, std::optional<Precision> precision) {
  members_.erase(number);  // its connection of before
  auto auditor = std::make_unique<Participant>();
  auditor->signer = signer_of(static_cast<uint8_t>(number));
  auditor->courier =
      std::make_unique<ListeningCourier>(network_.connect(participant_name(auditor->signer->key())),
                                         kRun, [this](const membership::Audit& audit) {
                                           const std::lock_guard lock(mutex_);
                                           audits_.push_back(audit);
                                           changed_.notify_all();
                                         });
  member::MemberOptions options = options_of(number, *auditor);
  options.audits = true;
  if (precision) options.recipe.train.precision = *precision;
  start(std::move(options), number, std::move(auditor));
}

void HostedRun::start(int number, std::unique_ptr<Participant> member) {
  member::MemberOptions options = options_of(number, *member);
  start(std::move(options), number, std::move(member));
}

member::MemberOptions HostedRun::options_of(int number, Participant& member) {
  member::MemberOptions options{
      .recipe = resolved_, .founding = initial_state_.founding, .stop = &member.stop};
  options.base_digest = initial_state_.base_digest;
  if (options.base_digest == 0) options.recipe.train.init.clear();  // as in received recipes
  options.recipe.adapter.init.clear();
  options.recipe.run.dir = (folder_ / ("member" + std::to_string(number))).string();
  options.row_seconds = row_seconds_;
  options.own_model = own_model_;
  options.hooks.message = [this](const std::string& text) {
    if (text.starts_with("starts over")) ++fresh_starts_;
  };
  options.hooks.activity = [this, step = held_at_,
                            own = &member](const member::Activity& activity) {
    if (activity.kind == member::ActivityKind::kFetching) ++snapshots_fetched_;
    if (step) wait_if_held(activity, *step, own->stop);
  };
  return options;
}

void HostedRun::start(member::MemberOptions options, int number,
                      std::unique_ptr<Participant> member) {
  member->thread = std::thread([own = member.get(), options = std::move(options)] {
    try {
      own->result = own->ranks.empty() ? member::run_member(*own->courier, *own->signer, options)
                                       : run_site(*own->courier, *own->signer, options, own->ranks);
    } catch (...) {
      own->failure = std::current_exception();
    }
  });
  members_[number] = std::move(member);
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
  const Stopwatch watch;
  std::unique_lock lock(mutex_);
  while (!wanted(state_)) {
    if (watch.seconds() > kTooLongSeconds) throw Error(description());
    changed_.wait_for(lock, kLookAgain);
  }
}

// Where the run is; mutex_ is held.
std::string HostedRun::description() const {
  std::string text = fmt::format("the run did not get there in time: record {}, next round {}",
                                 state_.position.sequence, state_.next_round);
  for (const membership::Opening& opening : state_.open) {
    text += fmt::format(", round {} open in epoch {}", opening.round, opening.epoch);
  }
  for (const membership::Member& member : state_.members) {
    text += fmt::format(", a member {} since record {}", name_of(member.phase), member.phase_since);
  }
  return text;
}

void HostedRun::wait_until_caught_up(int member) {
  wait_until([this, member](const membership::State& state) {
    if (!state.knows(member)) return false;
    const uint64_t phase_since = state.members[static_cast<size_t>(member)].phase_since;
    return host_->reports()[member].position >= std::max(state.last_closing, phase_since);
  });
}

bool HostedRun::is_closed(uint64_t round) {
  const std::lock_guard lock(mutex_);
  return round < state_.next_round && state_.opening(round) == nullptr;
}

int HostedRun::id_of(int number) {
  return host_->state().find(participant(number).signer->key()).value();
}

size_t HostedRun::counted_late() {
  const std::lock_guard lock(mutex_);
  return counted_late_;
}

// They are one chunk each.
void HostedRun::lose_payloads() {
  const membership::State state = host_->state();
  const std::lock_guard lock(mutex_);
  for (const Contribution& one : committed_) {
    const PublicKey& key = state.members[static_cast<size_t>(one.member)].key;
    std::promise<void> dropped;
    courier_->drop(one.payload, participant_name(key),
                   [&dropped](const Result<void>&) { dropped.set_value(); });
    dropped.get_future().wait();
  }
}

std::vector<membership::Audit> HostedRun::audits() {
  const std::lock_guard lock(mutex_);
  return audits_;
}

std::vector<std::string> HostedRun::messages() {
  const std::lock_guard lock(mutex_);
  return messages_;
}

std::vector<membership::Loss> HostedRun::losses() {
  const std::lock_guard lock(mutex_);
  return losses_;
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
  wait_until([this](const membership::State&) { return host_->over(); });
}

}  // namespace thinwire::launch
