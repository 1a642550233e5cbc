// A replica that the test drives itself: it knows no model, only rounds, gradients and weights.
#include "thinwire/train/replica.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"
#include "thinwire/tensor/storage/aligned_buffer.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {
namespace {

constexpr int kSteps = 6;

// What a replica ends with.
struct Ended {
  std::vector<float> weights;
  std::vector<uint64_t> digests;  // after each step
};

class DrivenReplicas : public testing::Test {
 protected:
  // Gradients of both tensors are the number of the member's first row, so they differ.
  Ended drive(const ReplicaParts& parts, transport::Communicator& communicator) const {
    Replica replica(parts, communicator);
    replica.start();
    Ended ended;
    while (replica.completed() < kSteps) {
      const Round round = replica.next_round();
      EXPECT_EQ(round.step, static_cast<uint64_t>(replica.completed()));
      replica.begin(round);
      for (size_t tensor = 0; tensor < 2; ++tensor) {
        std::ranges::fill(replica.gradients().tensor(tensor),
                          static_cast<float>(round.own(replica.id()).rows.first + 1));
      }
      replica.gradients_ready(round);
      ended.digests.push_back(replica.apply(round).digest);
    }
    const auto values = replica.params().all();
    ended.weights.assign(values.begin(), values.end());
    return ended;
  }

  // How two workers, on threads, end.
  std::vector<Ended> run(const std::string& method,
                         std::function<std::span<float>(const tensor::Layout&)> memory = {}) const {
    const config::Recipe recipe = method::load_recipe(
        {}, std::vector<std::string>{"model.architecture=external",
                                     "external.tensors=[\"matrix 4x4\", \"bias 4\"]",
                                     "train.sequence=1", "train.workers=2", "train.batch=4",
                                     "train.steps=" + std::to_string(kSteps),
                                     "sync.method=" + method, "schedule.warmup=0"});
    const tensor::Layout layout(method::tensors_of(recipe));
    InitialParameters initial(std::make_shared<tensor::Arena>(layout), 2);
    CorePermits cores(2);
    const ReplicaParts parts{.recipe = recipe,
                             .memory = std::move(memory),
                             .start = {.initial = initial},
                             .machine = {.cores = cores}};
    const auto communicators = transport::make_local_communicators(2);
    std::vector<Ended> ends(2);
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] { ends[i] = drive(parts, *communicators[i]); });
    }
    threads.clear();
    return ends;
  }
};

TEST_F(DrivenReplicas, AgreeUnderEveryMethod) {
  for (const method::Method* method : method::all_methods()) {
    const std::vector<Ended> ends = run(std::string(method->name));
    EXPECT_EQ(ends[0].digests, ends[1].digests) << method->name;
    EXPECT_NE(ends[0].weights, std::vector<float>(ends[0].weights.size())) << method->name;
  }
}

TEST_F(DrivenReplicas, TrainWeightsInMemoryOfOthers) {
  std::vector<tensor::AlignedBuffer<float>> blocks;
  std::mutex mutex;
  const std::vector<Ended> ends = run("allreduce", [&](const tensor::Layout& layout) {
    const std::lock_guard lock(mutex);
    return std::span(blocks.emplace_back(layout.total()).data(),
                     static_cast<size_t>(layout.total()));
  });
  ASSERT_EQ(blocks.size(), 2);
  const std::span<const float> block(blocks[0].data(), ends[0].weights.size());
  EXPECT_EQ(std::vector<float>(block.begin(), block.end()), ends[0].weights);
  EXPECT_EQ(ends[0].weights, run("allreduce")[0].weights);
}

}  // namespace
}  // namespace thinwire::train
