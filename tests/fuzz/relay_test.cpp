// Runs the fuzz target of relays briefly: on a conversation, damaged ones, and noise.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "target.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/rng.h"

namespace thinwire {
namespace {

constexpr uint8_t kClientSays[] = {0, 1};
constexpr uint8_t kServerSays[] = {2, 3};

void say(Bytes& all, uint8_t whose, std::string_view text) {
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, 200);
    ByteWriter writer(all);
    writer.put(whose);
    writer.put(static_cast<uint8_t>(piece.size()));
    writer.put_bytes(as_bytes(piece));
    text.remove_prefix(piece.size());
  }
}

// Two clients that fetch the same chunk, one after the other and at once, and store another.
Bytes conversation() {
  Bytes all;
  const std::string name = to_hex(sha256(as_bytes(std::string_view("chunk"))));
  const std::string request =
      fmt::format("PUB $JS.API.DIRECT.GET.run-blobs.run.blob.you.{}.0 in.1 0\r\n\r\n", name);
  const std::string_view chunk = "HMSG in.1 9 12 17\r\nNATS/1.0\r\n\r\nchunk\r\n";
  for (const int client : {0, 1}) {
    say(all, kServerSays[client], "INFO {\"connect_urls\":[]}\r\n");
    say(all, kClientSays[client], "CONNECT {}\r\nPING\r\nSUB in.* 9\r\n");
    say(all, kServerSays[client], "+OK\r\nPONG\r\n");
  }
  say(all, kClientSays[0], request);
  say(all, kServerSays[0], chunk);
  say(all, kClientSays[1], request);
  say(all, kServerSays[1], "HMSG in.1 9 18 18\r\nNATS/1.0 404 No\r\n\r\n\r\n");
  say(all, kClientSays[1], request);
  say(all, kClientSays[1], fmt::format("PUB run.blob.me.{} in.2 5\r\nchunk\r\n", name));
  say(all, kServerSays[1], "MSG in.2 9 9\r\n{\"seq\":7}\r\n-ERR 'no'\r\n");
  return all;
}

TEST(RelayFuzz, TargetSurvivesDamagedConversationsAndNoise) {
  Rng rng(8, 1);
  const Bytes valid = conversation();
  fuzz_relay(valid.data(), valid.size());
  for (int round = 0; round < 3000; ++round) {
    Bytes damaged = valid;
    for (uint64_t i = 0; i < 1 + rng.below(4); ++i) {
      damaged[rng.below(damaged.size())] = static_cast<uint8_t>(rng.bits());
    }
    if (rng.below(4) == 0) damaged.resize(rng.below(damaged.size() + 1));
    fuzz_relay(damaged.data(), damaged.size());
    std::ranges::generate(damaged, [&] { return static_cast<uint8_t>(rng.bits()); });
    fuzz_relay(damaged.data(), damaged.size());
  }
}

}  // namespace
}  // namespace thinwire
