// What bench/slow_connections measures: a nats-server, somebody honest on it, and members that read
// nothing.
//
//   slow_run honest FOLDER             starts the server, prints its port, and then stores, fetches
//                                      and says something, one after the other, until it is killed:
//                                      a line for each, with the time by the monotonic clock at
//                                      which it began, and the seconds that it took
//   slow_run deaf FOLDER PORT COUNT    makes that many connections of a member to whom all that is
//                                      said is sent, prints "ready" and waits; whoever started it
//                                      stops it with SIGSTOP
//   slow_run ask FOLDER PORT BYTES     makes the server send so many bytes of chunks to each
//                                      of them
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/file.h"
#include "thinwire/base/rng.h"
#include "thinwire/transport/nats/courier_nats.h"
#include "thinwire/transport/nats/nats_server.h"
#include "thinwire/transport/nats/nats_subjects.h"

namespace thinwire::transport {
namespace {

constexpr const char* kRun = "slow";
constexpr double kPatience = 60;  // seconds
constexpr size_t kPayloadBytes = 8192;
constexpr size_t kStatementBytes = 200;
constexpr const char* kDeafInbox = "_INBOX.deaf.x";
constexpr std::chrono::milliseconds kPause(3);

Seed seed_of(uint8_t participant) {
  Seed seed{};
  seed.front() = participant;
  return seed;
}

const std::vector<std::string> kNames = {"storing", "fetching", "deaf"};

NatsOptions options_of(uint8_t participant, int port, const std::string& authority) {
  return {
      .target = {{"127.0.0.1:" + std::to_string(port)}, authority, seed_of(participant), kPatience},
      .run = kRun,
      .self = kNames[participant]};
}

std::unique_ptr<Courier> connect(const NatsOptions& options) {
  auto courier = connect_nats_courier(options);
  if (!courier) throw Error(courier.error().message);
  return *std::move(courier);
}

void show(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

using Done = std::shared_ptr<std::promise<void>>;

// Waits for what `start` starts, and prints how long it took.
template <typename Start>
void timed(const char* what, const Start& start) {
  const auto done = std::make_shared<std::promise<void>>();
  const double began = monotonic_seconds();
  start(done);
  done->get_future().get();
  show(fmt::format("{} {:.6f} {:.6f}", what, began, monotonic_seconds() - began));
}

template <typename T>
void require(const Result<T>& result) {
  if (!result) throw Error(result.error().message);
}

void be_honest(const fs::path& folder) {
  std::vector<NatsUser> users;
  for (size_t i = 0; i < kNames.size(); ++i) {
    const NatsRole role = i < 2 ? NatsRole::kCoordinator : NatsRole::kMember;
    users.push_back({kNames[i], make_signer(seed_of(static_cast<uint8_t>(i)))->key(), role});
  }
  NatsServer server({.host = "127.0.0.1", .folder = folder, .run = kRun, .streams = {}}, users,
                    kPatience);
  write_file(folder / "authority.pem", server.authority());
  const NatsOptions options = options_of(0, server.port(), server.authority());
  require(create_nats_stores(options, {}, {}));
  const auto storing = connect(options);
  const auto fetching = connect(options_of(1, server.port(), server.authority()));
  std::mutex mutex;
  Done heard;
  const auto hearing =
      fetching->subscribe(kNames[0], "said", [&](const std::string&, const Bytes&) {
        const std::scoped_lock lock(mutex);
        heard->set_value();
      });
  show(fmt::format("port {}", server.port()));
  for (uint64_t turn = 0;; ++turn) {
    Rng rng(turn, 1);
    auto payload = std::make_shared<Bytes>(kPayloadBytes);
    for (uint8_t& byte : *payload) byte = static_cast<uint8_t>(rng.bits());
    timed("store", [&](const Done& done) {
      storing->put(payload, Priority::kRound, [done](const Result<void>& stored) {
        require(stored);
        done->set_value();
      });
    });
    timed("fetch", [&](const Done& done) {
      fetching->get(blob_id(*payload), {kNames[0]}, Priority::kRound,
                    [done](const Result<Bytes>& fetched) {
                      require(fetched);
                      done->set_value();
                    });
    });
    timed("say", [&](const Done& done) {
      {
        const std::scoped_lock lock(mutex);
        heard = done;
      }
      storing->publish("said", Bytes(kStatementBytes));
    });
    std::this_thread::sleep_for(kPause);
  }
}

std::unique_ptr<NatsConnection> connect_deaf(const fs::path& folder, int port) {
  auto connection =
      connect_nats(options_of(2, port, read_text_file(folder / "authority.pem")).target,
                   {[](const NatsMessage&) {}, [](bool) {}, [](const std::string&) {},
                    [](const std::string&) {}});
  if (!connection) throw Error(connection.error().message);
  return *std::move(connection);
}

void be_deaf(const fs::path& folder, int port, int count) {
  std::vector<std::unique_ptr<NatsConnection>> connections;
  for (int i = 0; i < count; ++i) {
    connections.push_back(connect_deaf(folder, port));
    connections.back()->subscribe(NatsSubjects(kRun).statement("*", "*"));
    connections.back()->subscribe(kDeafInbox);
  }
  show("ready");
  while (true) ::pause();
}

void ask(const fs::path& folder, int port, size_t bytes) {
  const auto connection = connect_deaf(folder, port);
  for (size_t asked = 0; asked < bytes; asked += kPayloadBytes) {
    require(connection->publish(NatsSubjects(kRun).get_chunk(kNames[0], NatsSubjects::kAllChunks),
                                kDeafInbox, {}, {}));
  }
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[0] == "honest") {
    be_honest(arguments[1]);
  } else if (arguments.size() == 4 && arguments[0] == "deaf") {
    be_deaf(arguments[1], std::stoi(arguments[2]), std::stoi(arguments[3]));
  } else if (arguments.size() == 4 && arguments[0] == "ask") {
    ask(arguments[1], std::stoi(arguments[2]), std::stoul(arguments[3]));
  } else {
    throw Error("its arguments are at the top of bench/slow_run.cpp");
  }
  return 0;
}

}  // namespace
}  // namespace thinwire::transport

int main(int count, char** arguments) {
  try {
    return thinwire::transport::run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::fputs(fmt::format("slow_run: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}
