// What a contribution reader finds in payloads is what the strategies apply.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "tests/sync/replicas.h"
#include "thinwire/sync/algorithm.h"

namespace thinwire::sync {
namespace {

constexpr int kMembers = 3;

const std::vector<TensorSpec> kTensors = {{"embedding", {30, 17}, TensorRole::kEmbedding},
                                          {"first", {33, 70}, TensorRole::kMatrix, 0},
                                          {"second", {19, 70}, TensorRole::kMatrix, 1},
                                          {"norm", {70}, TensorRole::kNorm, 1}};

// What all members sent.
struct Sent {
  std::mutex mutex;
  std::map<std::pair<int, transport::Key>, Bytes> payloads;
};

class ListeningCommunicator final : public transport::Communicator {
 public:
  ListeningCommunicator(std::unique_ptr<Communicator> to, Sent& sent)
      : to_(std::move(to)), sent_(sent) {}

  int rank() const override { return to_->rank(); }
  int size() const override { return to_->size(); }
  void start_all_gather(const transport::Key& key, Bytes payload,
                        const transport::Contributors& from) override {
    note(key, payload);
    to_->start_all_gather(key, std::move(payload), from);
  }
  Result<std::vector<transport::Delivery>> wait_all_gather(const transport::Key& key,
                                                           double timeout_s) override {
    return to_->wait_all_gather(key, timeout_s);
  }
  void start_all_reduce(const transport::Key& key, std::span<const float> values,
                        const WireCodec& codec, const transport::Contributors& from) override {
    Bytes coded(wire_bytes(codec.type, values.size()));
    codec.encode(values, coded);
    note(key, coded);
    to_->start_all_reduce(key, values, codec, from);
  }
  Result<void> wait_all_reduce(const transport::Key& key, std::span<float> out,
                               double timeout_s) override {
    return to_->wait_all_reduce(key, out, timeout_s);
  }
  void cancel(const transport::Key& key) override { to_->cancel(key); }
  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    return to_->split(members);
  }
  void leave() override { to_->leave(); }
  void abort(const std::string& reason) override { to_->abort(reason); }
  transport::TrafficCount traffic() const override { return to_->traffic(); }

 private:
  void note(const transport::Key& key, const Bytes& payload) {
    const std::lock_guard lock(sent_.mutex);
    sent_.payloads[{to_->rank(), key}] = payload;
  }

  const std::unique_ptr<Communicator> to_;
  Sent& sent_;
};

struct Case {
  std::string method, fields;
  float share;  // of the sum of all contributions by which the weights change
};

class ContributionReaderTest : public testing::TestWithParam<Case> {
 protected:
  static config::Recipe recipe() {
    return config::parse_recipe(
        "[sync]\nmethod = \"" + GetParam().method +
            "\"\n[train]\nsteps = 2\nworkers = 3\n[optim]\nweight_decay = 0\nclip = 0\n[" +
            GetParam().method + "]\n" + GetParam().fields,
        "test", {}, method::method_sections());
  }
};

TEST_P(ContributionReaderTest, FindsWhatTheMembersApply) {
  const config::Recipe recipe = this->recipe();
  Sent sent;
  Replicas replicas(recipe, kTensors, kMembers, [&](auto communicator) {
    return std::make_unique<ListeningCommunicator>(std::move(communicator), sent);
  });
  ThreadPool threads(2);
  const auto reader =
      make_contribution_reader(method::sync_spec(recipe).method, replicas.layout(), threads);
  ASSERT_NE(reader, nullptr);
  for (uint64_t step = 0; step < 2; ++step) {
    const tensor::Arena& weights = replicas.shared(0);
    const std::vector<float> before(weights.all().begin(), weights.all().end());
    sent.payloads.clear();
    const auto reports = replicas.step(step, 1.0f, [&](int member, tensor::Arena& gradients) {
      random_gradients(member, step, gradients);
    });
    for (const auto& report : reports) ASSERT_TRUE(report) << report.error().message;
    std::vector<float> sum(before.size());
    for (const auto& [name, payload] : sent.payloads) {
      const auto& [member, key] = name;
      codec::PayloadId id;
      id.run = key.run;
      id.epoch = key.epoch;
      id.sender = static_cast<uint32_t>(member);
      id.round = key.round;
      tensor::Arena one(replicas.layout());
      for (size_t t = 0; t < kTensors.size(); ++t) std::ranges::fill(one.tensor(t), 7.0f);
      const auto read = reader->read(payload, id, key.fragment, one);
      ASSERT_TRUE(read) << read.error().message;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += one.all()[i];
    }
    double difference = 0, change = 0;
    for (size_t i = 0; i < sum.size(); ++i) {
      const double moved = before[i] - std::as_const(weights).all()[i];
      const double error = moved - GetParam().share * sum[i];
      difference += error * error;
      change += moved * moved;
    }
    ASSERT_GT(change, 0);
    EXPECT_LT(std::sqrt(difference / change), 1e-5) << "step " << step;
  }
}

TEST_P(ContributionReaderTest, RefusesWhatDoesNotDecode) {
  const config::Recipe recipe = this->recipe();
  const tensor::Layout layout(kTensors);
  ThreadPool threads(1);
  const auto reader = make_contribution_reader(method::sync_spec(recipe).method, layout, threads);
  tensor::Arena out(layout);
  for (const size_t length : {size_t{0}, size_t{1}, size_t{1000}}) {
    EXPECT_FALSE(reader->read(Bytes(length), {}, 0, out)) << length;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, ContributionReaderTest,
    testing::Values(
        Case{"diloco", "sync_every = 1\nouter = \"average\"\nwire = \"fp32\"\n", 1},
        Case{"streaming",
             "sync_every = 1\nfragment_layers = 1\noverlap = \"none\"\nouter = \"average\"\nwire = "
             "\"fp32\"\n",
             1},
        Case{"distro", "k = 5\nupdate = \"sgd\"\naggregate = \"mean_of_all\"\nvalues = \"fp32\"\n",
             1.0f / 3},
        Case{"sparseloco",
             "sync_every = 1\nchunk = 100\nk = 9\nouter = \"sgd\"\nouter_lr = 1\n"
             "aggregate = \"mean_of_all\"\n",
             1.0f / 3}),
    [](const auto& one) { return one.param.method; });

// For a method without state, what a member sends can be computed from its gradients.
TEST(ContributionReader, RecomputesWhatAMemberSends) {
  const auto recipe = config::parse_recipe(
      "[sync]\nmethod = \"allreduce\"\n[train]\nworkers = 3\n[allreduce]\nhide = false\nwire = "
      "\"bf16\"\n",
      "test", {}, method::method_sections());
  Sent sent;
  Replicas replicas(recipe, kTensors, kMembers, [&](auto communicator) {
    return std::make_unique<ListeningCommunicator>(std::move(communicator), sent);
  });
  const std::vector<float> weights = {0.5f, 0.3f, 0.2f};
  replicas.step(
      0, 1.0f,
      [&](int member, tensor::Arena& gradients) { random_gradients(member, 0, gradients); },
      weights);
  ThreadPool threads(1);
  const auto reader =
      make_contribution_reader(method::sync_spec(recipe).method, replicas.layout(), threads);
  ASSERT_TRUE(reader->stateless());
  ASSERT_EQ(sent.payloads.size(), static_cast<size_t>(kMembers));
  for (const auto& [name, payload] : sent.payloads) {
    tensor::Arena expected(replicas.layout()), read(replicas.layout());
    random_gradients(name.first, 0, expected);
    reader->recompute(weights[static_cast<size_t>(name.first)], expected);
    ASSERT_TRUE(reader->read(payload, {}, 0, read));
    EXPECT_TRUE(std::ranges::equal(std::as_const(read).all(), std::as_const(expected).all()));
  }
}

}  // namespace
}  // namespace thinwire::sync
