// libFuzzer target of transport::decode_frame and of what FrameHub does with what arrives (preset
// fuzz). The input is a sequence of frames that arrive while an exchange and a sum are in flight: a
// byte that says how the next one is made, then its length (2 bytes) and bytes.
#include <memory>
#include <utility>
#include <vector>

#include "target.h"
#include "thinwire/base/digest.h"
#include "thinwire/codec/wire.h"
#include "thinwire/transport/frame_hub.h"

namespace {

using thinwire::Bytes;
using thinwire::transport::Frame;
using thinwire::transport::FrameHead;
using thinwire::transport::FrameHub;
using thinwire::transport::Key;

constexpr int kMembers = 3;
constexpr Key kExchange{.run = 1, .epoch = 0, .round = 2, .fragment = 0};
constexpr Key kSum{.run = 1, .epoch = 0, .round = 2, .fragment = 1};

// Whatever decodes is encoded to the same bytes.
void check_codec(const Bytes& bytes) {
  const auto frame = thinwire::transport::decode_frame(bytes, kMembers);
  if (!frame) return;
  require(frame->head.from < kMembers && frame->head.to < kMembers);
  require(thinwire::transport::encode_frame(frame->head, frame->body) == bytes);
}

// Bit 0 of `how`: the bytes as they are; else a body with a head made from the other bits.
Bytes make_frame(uint8_t how, std::span<const uint8_t> bytes) {
  if ((how & 1) != 0) return {bytes.begin(), bytes.end()};
  const std::vector<int> everybody = {0, 1, 2};
  FrameHead head;
  head.kind = static_cast<thinwire::transport::FrameKind>(1 + (how >> 1 & 7));
  head.from = how >> 4 & 3;
  if (thinwire::transport::names_operation(head.kind)) {
    head.operation.group = thinwire::hash_bytes(thinwire::as_bytes(std::span(everybody)));
    head.operation.key = (how & 64) != 0 ? kSum : kExchange;
  }
  return thinwire::transport::encode_frame(head, bytes);
}

}  // namespace

FUZZ_TARGET(frame)(const uint8_t* data, size_t size) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<std::shared_ptr<FrameHub>> hubs = {
      std::make_shared<FrameHub>(0, kMembers, [](int to, const Bytes& frame) {
        require(to != 0 && thinwire::transport::decode_frame(frame, kMembers).has_value());
      })};
  FrameHub& hub = *hubs.front();
  size_t noted = 0;
  hub.take_notes([&noted](int, const Bytes& note) { noted += note.size(); });
  const uint64_t group = hub.group({0, 1, 2});
  hub.offer(group, 0, kExchange, Bytes(5));
  hub.contribute(group, 0, kSum, values, thinwire::codec::wire_codec(thinwire::WireType::kBf16));
  thinwire::ByteReader input({data, size});
  while (input.ok() && input.remaining() > 0) {
    const auto how = input.get<uint8_t>();
    const auto length = input.get<uint16_t>();
    const Bytes frame = make_frame(how, input.get_bytes(length));
    check_codec(frame);
    deliver_frame(hubs, 1, kMembers, frame);
    while (hub.work()) continue;
  }
  const auto list = hub.collect(group, 0, kExchange, 0);
  require(!list || (list->size() <= kMembers && list->front().member == 0));
  (void)hub.sum(group, 0, kSum, values, 0);
  return 0;
}
