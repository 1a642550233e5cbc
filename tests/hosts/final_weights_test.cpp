// The final weights of a run, from members to the coordinator's folder.
#include "thinwire/hosts/final_weights.h"

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../tiny_run.h"
#include "tests/couriers/courier_memory.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/threads.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/checkpoint_collector.h"
#include "thinwire/hosts/request_handler.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"
#include "thinwire/train/params_digest.h"

namespace thinwire::hosts {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kSteps = 12;
constexpr double kPatience = 30;  // only what hangs takes that long

config::Recipe external_recipe(const fs::path& folder) {
  const std::vector<std::string> fields = {
      "model.architecture=external", "external.tensors=[\"slope 100x200\", \"offset 100\"]",
      "train.sequence=1", "train.steps=" + std::to_string(kSteps), "run.dir=" + folder.string()};
  return method::load_recipe("", fields);
}

// Writes a member's last checkpoint, and returns the digest of its weights.
uint64_t train_to_the_end(const fs::path& folder, float value, int64_t steps = kSteps) {
  const config::Recipe recipe = external_recipe(folder);
  const tensor::Layout layout(method::tensors_of(recipe));
  tensor::Arena weights(layout);
  for (size_t i = 0; i < layout.size(); ++i) std::ranges::fill(weights.tensor(i), value);
  checkpoint::CheckpointWriter writer(folder / "checkpoints", static_cast<uint64_t>(steps));
  writer.write_weights(weights);
  writer.commit({.step = static_cast<uint64_t>(steps), .run = 7, .method = {}}, 0);
  ThreadPool threads(1);
  return train::bytes_digest(std::as_const(weights).bytes(), threads);
}

class FinalWeights : public testing::Test {
 protected:
  FinalWeights() {
    run_.recipe = external_recipe(folder_ / "serve");
    run_.description.founding.run = 7;
    fs::create_directories(folder_ / "serve" / kServerFolder);
    reception_.emplace(*courier_, run_, WaitLimits{.answer_s = 1},
                       [this](std::string_view text) { told_.emplace_back(text); });
    RequestHandler::Callbacks callbacks;
    callbacks.leads = [] { return true; };
    callbacks.refusal = [](const Request&) { return std::string(); };
    callbacks.weights = [this](const Request& request) {
      return reception_->answer(request, weights(), now_);
    };
    handler_.emplace(*courier_, *coordinator_, files_, callbacks);
    runs_ = std::thread([this] {
      while (!ended_) {
        if (!network_.step()) std::this_thread::yield();
      }
    });
    serves_ = std::thread([this] {
      while (!ended_) handler_->serve_pending(0.01);
    });
  }
  ~FinalWeights() override {
    stop();
    reception_.reset();
    fs::remove_all(folder_);
  }
  // From here on the reception is the test's alone.
  void stop() {
    if (ended_.exchange(true)) return;
    serves_.join();
    runs_.join();
  }

  // Returns what the member tells of it.
  std::vector<std::string> offer(const fs::path& folder, uint64_t digest) {
    const auto signer = make_signer(make_seed());
    const auto courier = network_.connect(participant_name(signer->key()));
    RequestClient requests(*courier, coordinator_->key(), *signer);
    std::vector<std::string> told;
    offer_weights(*courier, requests,
                  {.run_folder = folder,
                   .digest = digest,
                   .answer_s = kPatience,
                   .message = [&](std::string_view text) { told.emplace_back(text); }});
    return told;
  }
  Result<WeightsAnswer> say(const PublicKey& member, double now, Bytes body = {}) {
    Request request;
    request.what = RequestKind::kWeights;
    request.requester = member;
    request.body = std::move(body);
    return reception_->answer(request, weights(), now);
  }
  std::optional<RunWeights> weights() const {
    if (!digest_) return std::nullopt;
    return RunWeights{.last = {kSteps, *digest_}, .best = best_};
  }
  bool is_kept() const { return fs::exists(folder_ / "serve" / "checkpoints"); }

  const fs::path folder_ = test_folder();
  ServedRun run_;
  std::optional<uint64_t> digest_ = train_to_the_end(folder_ / "member", 0.5F);
  std::optional<WeightsOfRun> best_;
  std::atomic<double> now_ = 0;    // as the coordinator's thread sees it
  std::vector<std::string> told_;  // by the coordinator
  const PublicKey first_ = make_signer(make_seed())->key();
  const PublicKey other_ = make_signer(make_seed())->key();

 private:
  std::atomic<bool> ended_ = false;
  transport::MemoryNetwork network_{{}};
  const std::unique_ptr<Signer> coordinator_ = make_signer(make_seed());
  const std::unique_ptr<transport::Courier> courier_ =
      network_.connect(participant_name(coordinator_->key()));
  std::map<Sha256, FilePart> files_;
  std::optional<RequestHandler> handler_;

 protected:
  std::optional<WeightsReception> reception_;

 private:
  std::thread runs_;
  std::thread serves_;
};

TEST_F(FinalWeights, AreKeptAsACheckpointOnce) {
  EXPECT_THAT(offer(folder_ / "member", *digest_),
              ElementsAre(HasSubstr("gives the coordinator the final weights: 80")));
  EXPECT_THAT(offer(folder_ / "member", *digest_),
              ElementsAre(testing::_, HasSubstr("it does not want them any more")));
  stop();
  const auto newest = checkpoint::newest_checkpoint(folder_ / "serve" / "checkpoints");
  ASSERT_TRUE(newest);
  const checkpoint::CheckpointReader kept(*newest);
  EXPECT_EQ(kept.meta().step, static_cast<uint64_t>(kSteps));
  EXPECT_EQ(kept.recipe_text(), config::print_recipe(run_.recipe));
  const tensor::Layout layout(method::tensors_of(run_.recipe));
  tensor::Arena weights(layout);
  kept.read_weights(weights);
  EXPECT_THAT(weights.tensor(0), testing::Each(0.5F));
  EXPECT_FALSE(fs::exists(folder_ / "serve" / kServerFolder / "final"));
  EXPECT_FALSE(reception_->busy(0));
  EXPECT_EQ(reception_->kept(), digest_);
  EXPECT_EQ(reception_->reported(first_, 0), WeightsAnswer::kNotWanted);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("the final weights are in")));
  reception_->discard();
  EXPECT_FALSE(is_kept());
}

TEST_F(FinalWeights, ThatAreNotTheRunsAreRefusedAndTheNextOnesTaken) {
  const uint64_t own = train_to_the_end(folder_ / "other", 0.25F);
  EXPECT_THAT(offer(folder_ / "other", own),
              ElementsAre(testing::_, HasSubstr("and the run's " + to_hex(*digest_))));
  EXPECT_THAT(offer(folder_ / "other", *digest_),  // it says so, but the file has another
              ElementsAre(testing::_, HasSubstr("is " + to_hex(own) + ", and the run's")));
  EXPECT_FALSE(is_kept());
  EXPECT_EQ(offer(folder_ / "member", *digest_).size(), 1u);
  EXPECT_TRUE(is_kept());
}

TEST_F(FinalWeights, ThatAreNoWeightsAreRefusedInOneLine) {
  const auto newest = checkpoint::newest_checkpoint(folder_ / "member" / "checkpoints");
  write_file(*newest / "weights.safetensors", "not\n\x1b[31mweights");
  const std::vector<std::string> told = offer(folder_ / "member", *digest_);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1].find_first_of("\n\x1b"), std::string::npos) << told[1];
  EXPECT_FALSE(fs::exists(folder_ / "serve" / kServerFolder / "final"));
}

TEST_F(FinalWeights, ComeWithTheBestOnes) {
  best_ = {kSteps - 4, train_to_the_end(folder_ / "member", 0.125F, kSteps - 4)};
  checkpoint::link_best(folder_ / "member" / "checkpoints", kSteps - 4);
  EXPECT_THAT(offer(folder_ / "member", *digest_),
              ElementsAre(HasSubstr("the final weights and the best ones: 161 kB")));
  stop();
  const checkpoint::CheckpointReader best(folder_ / "serve" / checkpoint::kBestLink);
  EXPECT_EQ(best.meta().step, static_cast<uint64_t>(kSteps - 4));
  const tensor::Layout layout(method::tensors_of(run_.recipe));
  tensor::Arena weights(layout);
  best.read_weights(weights);
  EXPECT_THAT(weights.tensor(0), testing::Each(0.125F));
  const auto newest = checkpoint::newest_checkpoint(folder_ / "serve" / "checkpoints");
  EXPECT_EQ(checkpoint::CheckpointReader(*newest).meta().step, static_cast<uint64_t>(kSteps));
}

TEST_F(FinalWeights, AreKeptWithoutTheBestOnesIfThoseAreOthers) {
  train_to_the_end(folder_ / "member", 0.125F, kSteps - 4);
  best_ = {kSteps - 4, 99};
  checkpoint::link_best(folder_ / "member" / "checkpoints", kSteps - 4);
  EXPECT_THAT(offer(folder_ / "member", *digest_), ElementsAre(HasSubstr("and the best ones")));
  stop();
  EXPECT_EQ(reception_->kept(), digest_);
  EXPECT_FALSE(fs::exists(folder_ / "serve" / checkpoint::kBestLink));
  const auto newest = checkpoint::newest_checkpoint(folder_ / "serve" / "checkpoints");
  ASSERT_TRUE(newest);
  EXPECT_EQ(checkpoint::CheckpointReader(*newest).meta().step, static_cast<uint64_t>(kSteps));
  EXPECT_THAT(told_, ElementsAre(HasSubstr("the best weights, those after step 8, are in"),
                                 HasSubstr("the final weights are in")));
}

TEST_F(FinalWeights, OfAMemberThatCameLateAreWithoutTheBestOnes) {
  best_ = {kSteps - 4, 99};
  EXPECT_EQ(offer(folder_ / "member", *digest_).size(), 1u);
  stop();
  EXPECT_FALSE(fs::exists(folder_ / "serve" / checkpoint::kBestLink));
  EXPECT_FALSE(reception_->busy(0));
  EXPECT_THAT(told_, ElementsAre(HasSubstr("the best weights, those after step 8, are in"),
                                 HasSubstr("the final weights are in")));
}

TEST_F(FinalWeights, ThatAreTheBestAreLinked) {
  best_ = {kSteps, *digest_};
  offer(folder_ / "member", *digest_);
  stop();
  EXPECT_EQ(checkpoint::CheckpointReader(folder_ / "serve" / checkpoint::kBestLink).meta().step,
            static_cast<uint64_t>(kSteps));
}

TEST_F(FinalWeights, AreWantedOfOneMemberAtATime) {
  stop();
  EXPECT_EQ(reception_->reported(first_, 3), WeightsAnswer::kWanted);
  EXPECT_EQ(reception_->reported(other_, 4), WeightsAnswer::kNotWanted);
  EXPECT_EQ(say(other_, 4), WeightsAnswer::kNotWanted);
  EXPECT_EQ(say(first_, 4), WeightsAnswer::kWanted) << "it is still storing them";
  EXPECT_TRUE(reception_->busy(5));
  EXPECT_FALSE(reception_->busy(6)) << "it has ended";
  EXPECT_EQ(reception_->reported(other_, 6), WeightsAnswer::kWanted);
}

TEST_F(FinalWeights, AreNotWaitedForForEver) {
  stop();
  EXPECT_EQ(reception_->reported(first_, 0), WeightsAnswer::kWanted);
  double now = 0;
  while (say(first_, now) == WeightsAnswer::kWanted) now += 1;
  EXPECT_GT(now, 600);
  EXPECT_LT(now, 700);
  EXPECT_EQ(reception_->reported(other_, now), WeightsAnswer::kNotWanted);
}

TEST_F(FinalWeights, AreNotTakenBeforeTheRunsDigestIsKnown) {
  digest_.reset();
  EXPECT_THAT(offer(folder_ / "member", 7),
              ElementsAre(testing::_, HasSubstr("it does not want them any more")));
}

TEST_F(FinalWeights, AListWithoutANameOrOfAnySizeIsRefused) {
  stop();
  EXPECT_EQ(reception_->reported(first_, 0), WeightsAnswer::kWanted);
  EXPECT_FALSE(say(first_, 0, Bytes(39)));
  EXPECT_FALSE(say(first_, 0, Bytes(40, 0xff)));
}

}  // namespace
}  // namespace thinwire::hosts
