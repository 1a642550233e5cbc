// libFuzzer target of what a relay reads of its clients and of the run's server (preset fuzz):
// NATS's protocol, and what becomes of it. The first byte of each piece says whose it is, the
// second how long it is.
#include <algorithm>
#include <array>
#include <span>

#include "target.h"
#include "thinwire/base/bytes.h"
#include "thinwire/transport/relay/relay_traffic.h"

namespace {

using namespace thinwire::transport;  // NOLINT(google-build-using-namespace)

constexpr uint64_t kClients = 2;

// Whatever a relay sends is the protocol, too.
class Checked final : public RelayWire {
 public:
  void to_client(uint64_t client, std::span<const uint8_t> bytes) override {
    check(clients_[client], bytes);
  }
  void to_server(uint64_t client, std::span<const uint8_t> bytes) override {
    check(servers_[client], bytes);
  }

 private:
  static void check(NatsFrameReader& reader, std::span<const uint8_t> bytes) {
    reader.add(bytes);
    const auto frame = reader.next();
    require(frame.has_value() && frame->has_value() && (*frame)->raw.size() == bytes.size());
  }

  std::array<NatsFrameReader, kClients> clients_;
  std::array<NatsFrameReader, kClients> servers_;
};

}  // namespace

FUZZ_TARGET(relay)(const uint8_t* data, size_t size) {
  Checked wire;
  RelayTraffic traffic(wire, "run", 1000);
  std::array<NatsFrameReader, 2 * kClients> readers;
  for (uint64_t client = 0; client < kClients; ++client) traffic.open(client);
  thinwire::ByteReader input({data, size});
  while (input.remaining() > 0) {
    const size_t whose = input.get<uint8_t>() % readers.size();
    readers[whose].add(input.get_bytes(std::min<size_t>(input.get<uint8_t>(), input.remaining())));
    while (true) {
      const auto frame = readers[whose].next();
      if (!frame) return 0;  // the relay closes the connection
      if (!*frame) break;
      require((*frame)->body_end <= (*frame)->raw.size());
      const uint64_t client = whose % kClients;
      whose < kClients ? traffic.from_client(client, **frame)
                       : traffic.from_server(client, **frame);
    }
  }
  return 0;
}
