#include <algorithm>
#include <utility>

#include "simulated_run.h"

namespace thinwire::membership {
namespace {

constexpr double kTickSeconds = 0.5;

}  // namespace

Founding simulated_founding() {
  return {.run = 7,
          .recipe = {},
          .weights = sha256(as_bytes("weights")),
          .weights_bytes = 500,
          .coordinators = {fake_key(0), fake_key(1)}};
}

uint64_t FakePlan::settled_rounds(uint64_t completed) const {
  const uint64_t rounds = completed / kStepsPerRound * parts_;
  return rounds == rounds_ ? rounds : rounds - std::min(overlap_, rounds);
}

Opening FakePlan::round(uint64_t number) const {
  Opening opening;
  opening.round = number;
  opening.first_step = kStepsPerRound * ((number + parts_ - 1) / parts_);
  opening.last = number + 1 == rounds_;
  if (number % parts_ == 0) opening.steps = {{0.5f, 0.5f}, {0.25f, 0.75f}};
  for (uint32_t fragment = 0; fragment < fragments_; ++fragment) {
    opening.operations.push_back({fragment, 1000});
  }
  return opening;
}

CoordinatorHost::CoordinatorHost(Network& network, const RunPlan& plan, const Options& options,
                                 uint64_t number, bool standby, SayAction say)
    : network_(network),
      plan_(plan),
      options_(options),
      signer_(number),
      standby_(standby),
      say_(std::move(say)) {}

void CoordinatorHost::start() {
  machine_ = std::make_unique<Coordinator>(plan_, options_, signer_, fake_verify,
                                           simulated_founding(), standby_);
  running = true;
  keep_ticking(++process_);
  network_.update_connections();
}

void CoordinatorHost::stop() {
  ++process_;
  running = false;
  network_.update_connections();
}

void CoordinatorHost::on_connected(uint64_t last) {
  receive(StoreConnected{last});
  network_.read_from(*this, std::min(last, machine_->state().position.sequence));
}

void CoordinatorHost::on_disconnected() { receive(StoreDisconnected()); }

void CoordinatorHost::on_record(const Bytes& record) { receive(RecordRead{record}); }

void CoordinatorHost::receive(const Input& input) {
  for (const Action& action : machine_->tick({&input, 1}, network_.now())) carry_out(action);
}

void CoordinatorHost::keep_ticking(uint64_t process) {
  network_.after(kTickSeconds, [this, process] {
    if (process != process_) return;
    for (const Action& action : machine_->tick({}, network_.now())) carry_out(action);
    keep_ticking(process);
  });
}

void CoordinatorHost::carry_out(const Action& action) {
  if (const auto* append = std::get_if<Append>(&action)) {
    network_.to_store(*this, [this, append = *append] { network_.append(append); });
  } else if (const auto* ask = std::get_if<AskStored>(&action)) {
    network_.to_store(*this, [this, payload = ask->payload] {
      if (!network_.blobs().contains(payload)) return;
      network_.to_host(*this, [this, payload] { receive(Acknowledged{payload}); });
    });
  } else if (std::holds_alternative<Halt>(action)) {
    say_(signer_.key(), action);
  } else if (std::holds_alternative<Reread>(action)) {
    network_.to_store(*this, [this] { network_.read_from(*this, 0); });
  } else {
    network_.to_store(*this, [this, action] { say_(signer_.key(), action); });
  }
}

}  // namespace thinwire::membership
