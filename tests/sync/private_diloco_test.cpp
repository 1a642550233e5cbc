// What leaves a member of a run with [privacy], whatever preset of DiLoCo and fragment it is of.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/sync/replicas.h"
#include "thinwire/base/wire.h"

namespace thinwire::sync {
namespace {

constexpr int kMembers = 3;
constexpr double kWeight = 1.0 / kMembers;

const std::vector<TensorSpec> kTensors = {{"embedding", {30, 17}, TensorRole::kEmbedding},
                                          {"first", {33, 70}, TensorRole::kMatrix, 0},
                                          {"second", {19, 70}, TensorRole::kMatrix, 1},
                                          {"norm", {70}, TensorRole::kNorm, 1},
                                          {"head", {30, 17}, TensorRole::kHead}};

// Norms of the payloads that were sent, and how many values each had, by fragment.
class Payloads {
 public:
  struct Sent {
    double norm = 0;
    size_t count = 0;
  };

  void add(uint32_t fragment, std::span<const float> values, const WireCodec& codec) {
    Bytes payload(wire_bytes(codec.type, values.size()));
    codec.encode(values, payload);
    std::vector<float> decoded(values.size());
    ASSERT_TRUE(codec.decode(payload, decoded));
    double squares = 0;
    for (const float value : decoded) squares += static_cast<double>(value) * value;
    const std::scoped_lock lock(mutex_);
    sent_[fragment].push_back({std::sqrt(squares), decoded.size()});
  }
  const std::map<uint32_t, std::vector<Sent>>& by_fragment() const { return sent_; }

 private:
  std::mutex mutex_;
  std::map<uint32_t, std::vector<Sent>> sent_;
};

class Reading final : public transport::Communicator {
 public:
  Reading(std::unique_ptr<transport::Communicator> inner, Payloads& payloads)
      : inner_(std::move(inner)), payloads_(payloads) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void start_all_gather(const transport::Key& key, Bytes payload,
                        const transport::Contributors& from) override {
    ADD_FAILURE() << "contributions are sums";
    inner_->start_all_gather(key, std::move(payload), from);
  }
  Result<std::vector<transport::Delivery>> wait_all_gather(const transport::Key& key,
                                                           double timeout_s) override {
    return inner_->wait_all_gather(key, timeout_s);
  }
  void start_all_reduce(const transport::Key& key, std::span<const float> values,
                        const WireCodec& codec, const transport::Contributors& from) override {
    payloads_.add(key.fragment, values, codec);
    inner_->start_all_reduce(key, values, codec, from);
  }
  Result<void> wait_all_reduce(const transport::Key& key, std::span<float> out,
                               double timeout_s) override {
    return inner_->wait_all_reduce(key, out, timeout_s);
  }
  void cancel(const transport::Key& key) override { inner_->cancel(key); }
  std::unique_ptr<transport::Communicator> split(std::span<const int> members) override {
    return inner_->split(members);
  }
  void leave() override { inner_->leave(); }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  transport::TrafficCount traffic() const override { return inner_->traffic(); }

 private:
  const std::unique_ptr<transport::Communicator> inner_;
  Payloads& payloads_;
};

const std::vector<std::pair<std::string, std::string>> kPresets = {
    {"local_sgd", "sync_every = 4\nwire = \"fp32\""},
    {"diloco", "sync_every = 4\nwire = \"fp32\""},
    {"diloco", "sync_every = 2\noverlap = \"eager\"\nwire = \"fp32\""},
    {"streaming", "sync_every = 4\nfragment_layers = 1\nwire = \"fp32\""}};

// Eight steps of random gradients. The wires are fp32: others change norms after the clipping.
void train(const std::string& method, const std::string& fields, const std::string& privacy,
           Payloads& payloads) {
  const std::string recipe = fmt::format(
      "[data]\nown = true\n[sync]\nmethod = \"{}\"\n[train]\nsteps = 8\nworkers = {}\n"
      "[{}]\n{}\n[privacy]\n{}\n",
      method, kMembers, method, fields, privacy);
  Replicas replicas(config::parse_recipe(recipe, "test", {}, method::method_sections()), kTensors,
                    kMembers, [&](std::unique_ptr<transport::Communicator> inner) {
                      return std::make_unique<Reading>(std::move(inner), payloads);
                    });
  for (uint64_t step = 0; step < 8; ++step) {
    for (const auto& report :
         replicas.step(step, 0.01f, [step](int member, tensor::Arena& gradients) {
           random_gradients(member, step, gradients);
         })) {
      ASSERT_TRUE(report) << report.error().message;
    }
  }
}

TEST(PrivateDiLoCo, EachFragmentIsClippedToTheBound) {
  for (const auto& [method, fields] : kPresets) {
    Payloads payloads;
    train(method, fields, "clip = 1e-4", payloads);
    ASSERT_FALSE(payloads.by_fragment().empty());
    if (method == "streaming") {
      EXPECT_GT(payloads.by_fragment().size(), 1u);
    }
    for (const auto& [fragment, all] : payloads.by_fragment()) {
      for (const auto& [norm, count] : all) {
        EXPECT_NEAR(norm / kWeight, 1e-4, 1e-8) << method << fragment;
      }
    }
  }
}

// A deviation of 1 a value, beside changes of some 0.01.
TEST(PrivateDiLoCo, EachFragmentHasTheNoise) {
  for (const auto& [method, fields] : kPresets) {
    Payloads payloads;
    train(method, fields, "clip = 1e-3\nnoise = 1000", payloads);
    ASSERT_FALSE(payloads.by_fragment().empty());
    for (const auto& [fragment, all] : payloads.by_fragment()) {
      for (const auto& [norm, count] : all) {
        const auto values = static_cast<double>(count);
        EXPECT_NEAR(norm / kWeight / std::sqrt(values), 1, 6 / std::sqrt(2 * values))
            << method << fragment;
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::sync
