// The courier over a nats-server of its own on loopback: what a payload and a statement take until
// they are where they are needed, and how fast blobs move, beside a bare loopback connection.
#include "thinwire/transport/nats/courier_nats.h"

#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/transport/nats/nats_server.h"

namespace thinwire::transport {
namespace {

constexpr double kPatience = 30;  // seconds
constexpr int kMembers = 4;

template <typename T>
void require(const Result<T>& result) {
  if (!result) throw Error(result.error().message);
}

std::shared_ptr<const Bytes> random_blob(size_t size) {
  static uint64_t seed = 0;
  Rng rng(++seed, 1);
  auto bytes = std::make_shared<Bytes>(size);
  for (size_t at = 0; at + 8 <= size; at += 8) {
    const uint64_t bits = rng.bits();
    std::memcpy(bytes->data() + at, &bits, 8);
  }
  return bytes;
}

// A server in a temporary folder, and couriers m0, m1, ...
struct Run {
  Run() {
    std::string name = fs::temp_directory_path() / "thinwire_bench_XXXXXX";
    folder = ::mkdtemp(name.data());
    std::vector<Seed> seeds;
    std::vector<NatsUser> users;
    for (int i = 0; i < kMembers; ++i) {
      seeds.push_back(make_seed());
      users.push_back({name_of(i), make_signer(seeds.back())->key(), NatsRole::kCoordinator});
    }
    server = std::make_unique<NatsServer>(
        NatsSettings{.host = "127.0.0.1", .folder = folder, .run = "bench", .streams = {}}, users,
        kPatience);
    for (int i = 0; i < kMembers; ++i) {
      const NatsOptions options{.target = {{"127.0.0.1:" + std::to_string(server->port())},
                                           server->authority(),
                                           seeds[static_cast<size_t>(i)],
                                           kPatience},
                                .run = "bench",
                                .self = name_of(i)};
      if (i == 0) require(create_nats_stores(options, {}, {}));
      couriers.push_back(std::move(connect_nats_courier(options).value()));
    }
  }
  ~Run() {
    couriers.clear();
    server.reset();
    fs::remove_all(folder);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  static std::string name_of(int member) { return "m" + std::to_string(member); }

  fs::path folder;
  std::unique_ptr<NatsServer> server;
  std::vector<std::unique_ptr<Courier>> couriers;
};

void store(Courier& courier, const std::shared_ptr<const Bytes>& blob) {
  std::promise<void> stored;
  courier.put(blob, Priority::kRound, [&](const Result<void>& done) {
    require(done);
    stored.set_value();
  });
  stored.get_future().get();
}

// Fetched by all of `by` at once.
void fetch(const std::vector<Courier*>& by, const BlobId& id) {
  std::vector<std::promise<void>> fetched(by.size());
  for (size_t i = 0; i < by.size(); ++i) {
    by[i]->get(id, {Run::name_of(0)}, Priority::kRound, [&, i](const Result<Bytes>& blob) {
      require(blob);
      fetched[i].set_value();
    });
  }
  for (auto& one : fetched) one.get_future().get();
}

// A payload of so many bytes is durable and at all members, its author among them.
void durable_at_all_members(benchmark::State& state) {
  Run run;
  std::vector<Courier*> all;
  for (const auto& courier : run.couriers) all.push_back(courier.get());
  for (auto _ : state) {
    state.PauseTiming();
    const auto blob = random_blob(static_cast<size_t>(state.range(0)));
    state.ResumeTiming();
    store(*all[0], blob);
    fetch(all, blob_id(*blob));
  }
}
BENCHMARK(durable_at_all_members)
    ->Arg(900)
    ->Arg(2'900'000)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// A statement of 900 bytes to another member and one back.
void statement_round_trip(benchmark::State& state) {
  Run run;
  std::promise<void>* back = nullptr;
  Courier& there = *run.couriers[1];
  const auto echo = there.subscribe("m0", "ping", [&](const std::string&, Bytes said) {
    there.publish("pong", std::move(said));
  });
  const auto ear = run.couriers[0]->subscribe(
      "m1", "pong", [&](const std::string&, const Bytes&) { back->set_value(); });
  store(*run.couriers[0], random_blob(1));  // then the subscriptions have arrived
  store(there, random_blob(1));
  for (auto _ : state) {
    std::promise<void> echoed;
    back = &echoed;
    run.couriers[0]->publish("ping", Bytes(900));
    echoed.get_future().get();
  }
}
BENCHMARK(statement_round_trip)->UseRealTime()->Unit(benchmark::kMicrosecond);

void blobs_stored(benchmark::State& state) {
  Run run;
  for (auto _ : state) {
    state.PauseTiming();
    const auto blob = random_blob(64 << 20);
    state.ResumeTiming();
    store(*run.couriers[0], blob);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * (64 << 20));
}
BENCHMARK(blobs_stored)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(5);

void blobs_fetched(benchmark::State& state) {
  Run run;
  const auto blob = random_blob(64 << 20);
  store(*run.couriers[0], blob);
  for (auto _ : state) fetch({run.couriers[1].get()}, blob_id(*blob));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * (64 << 20));
}
BENCHMARK(blobs_fetched)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(5);

// A TCP connection to the same machine: {the one end, the other}.
std::pair<int, int> loopback_connection() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
  const int first = ::socket(AF_INET, SOCK_STREAM, 0);
  const bool connected = ::bind(listening, any, size) == 0 && ::listen(listening, 1) == 0 &&
                         ::getsockname(listening, any, &size) == 0 &&
                         ::connect(first, any, size) == 0;
  const int second = connected ? ::accept(listening, nullptr, nullptr) : -1;
  ::close(listening);
  return {first, second};
}

// What the system moves from one thread to another, unencrypted and with nothing done to it.
void loopback(benchmark::State& state) {
  const auto [writing, reading] = loopback_connection();
  if (reading < 0) return state.SkipWithError("no connection over loopback");
  std::thread reader([from = reading] {
    std::vector<char> buffer(256 << 10);
    while (::read(from, buffer.data(), buffer.size()) > 0) continue;
  });
  const Bytes chunk(256 << 10);
  for (auto _ : state) {
    for (size_t sent = 0; sent < chunk.size();) {
      sent += static_cast<size_t>(::write(writing, chunk.data() + sent, chunk.size() - sent));
    }
  }
  ::close(writing);
  reader.join();
  ::close(reading);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * chunk.size()));
}
BENCHMARK(loopback)->UseRealTime();

}  // namespace
}  // namespace thinwire::transport
