#include "thinwire/transport/frame_hub.h"

#include <fmt/format.h>

#include <utility>

namespace thinwire::transport {
namespace {

class FrameCarrier final : public Carrier {
 public:
  explicit FrameCarrier(FrameHub::Send send) : send_(std::move(send)) {}

  void send(const FrameHead& head, std::span<const uint8_t> body) override {
    send_(head.to, encode_frame(head, body));
  }

 private:
  const FrameHub::Send send_;
};

}  // namespace

FrameHub::FrameHub(int self, int members, Send send)
    : Hub(members_below(members), {self}, std::make_shared<FrameCarrier>(std::move(send))),
      self_(self),
      members_(members) {}

void FrameHub::note(int to, std::span<const uint8_t> bytes) {
  const Lock lock(mutex_);
  carrier().send({FrameKind::kNote, self_, to, {}}, bytes);
}

void FrameHub::take_notes(TakeNote take) {
  const Lock handing_out(handing_out_);
  take_note_ = std::move(take);
  hand_out_notes();
}

void FrameHub::hand_out_notes() {
  const Lock lock(mutex_);
  while (take_note_ && !notes_.empty()) {
    auto [from, bytes] = std::move(notes_.front());
    notes_.pop_front();
    const Unlock meanwhile(mutex_);
    take_note_(from, std::move(bytes));
  }
  changed_.notify_all();
}

Result<void> FrameHub::wait_until(const std::function<bool()>& ready) {
  const Lock lock(mutex_);
  while (!rendezvous_.aborted() && !ready()) changed_.wait(mutex_);
  if (rendezvous_.aborted()) return tl::unexpected(*rendezvous_.aborted());
  return {};
}

void FrameHub::wake() {
  const Lock lock(mutex_);
  changed_.notify_all();
}

void FrameHub::tell_waits(TellWait tell, double first_s) {
  tell_wait_ = std::move(tell);
  tell_long_waits(first_s);
}

Result<void> FrameHub::deliver(Frame frame) {
  const bool is_note = frame.head.kind == FrameKind::kNote;
  {
    const Lock lock(mutex_);
    if (is_note) {
      notes_.emplace_back(frame.head.from, std::move(frame.body));
    } else if (auto taken = rendezvous_.deliver(std::move(frame)); !taken) {
      return taken;
    }
    changed_.notify_all();
  }
  if (is_note) {
    const Lock handing_out(handing_out_);
    hand_out_notes();
  }
  return {};
}

bool FrameHub::work() {
  const Lock lock(mutex_);
  return Hub::work(memory_);
}

void deliver_frame(std::span<const std::shared_ptr<FrameHub>> hubs, int first_sender,
                   int end_sender, Bytes bytes) {
  const int first = hubs.front()->self();
  const auto count = static_cast<int>(hubs.size());
  const auto take_in = [&]() -> Result<void> {
    Result<Frame> frame = decode_frame(std::move(bytes), hubs.front()->members());
    if (!frame) return tl::unexpected(frame.error());
    const auto [kind, from, to, operation] = frame->head;
    if (from < first_sender || from >= end_sender || to < first || to >= first + count) {
      return fail(FailureKind::kCorruptPayload,
                  fmt::format("it goes from member {} to {}", from, to));
    }
    return hubs[static_cast<size_t>(to - first)]->deliver(*std::move(frame));
  };
  const Result<void> taken = take_in();
  if (taken) return;
  hubs.front()->abort(fmt::format("a damaged frame came from the process of members {} to {}: {}",
                                  first_sender, end_sender - 1, taken.error().message));
}

}  // namespace thinwire::transport
