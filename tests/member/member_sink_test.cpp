// The checkpoints and the result of a member whose run an evaluation ends.
#include "thinwire/member/member_sink.h"

#include "follower_case.h"
#include "tests/tiny_run.h"
#include "thinwire/base/threads.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/train/params_digest.h"

namespace thinwire::member {
namespace {

class SinkOfAMember : public FollowerCase {
 protected:
  SinkOfAMember() { follow(0); }

  void write_checkpoint(int64_t step) {
    checkpoint::WorkerState state;
    state.params = &weights_;
    sink_.emplace(recipe_, 7, folder_, *follower_, collector_, checkpoints_,
                  [](const std::string&) {});
    sink_->add_checkpoint(step, MemberSink::kOnlyWorker, state);
  }
  void decide(int64_t step, int64_t best_step, bool ends) {
    sink_->decided(step, {.best = {.step = best_step, .loss = 2}, .ends = ends});
  }
  bool has_best() const { return fs::is_symlink(folder_ / checkpoint::kBestLink); }

  const fs::path folder_ = test_folder();
  const config::Recipe recipe_ = tiny_recipe(
      folder_, {"model.vocab=258", "eval.every=1", "eval.patience=1", "checkpoint.best=true"});
  const tensor::Layout layout_{{{"a.weight", {3, 5}}}};
  tensor::Arena weights_{layout_};
  report::Recorder recorder_{recipe_, folder_, 0};
  train::Collector collector_{recorder_};
  checkpoint::CheckpointCollector checkpoints_{folder_ / "checkpoints", 0,
                                               checkpoint::CheckpointStamp()};
  std::optional<MemberSink> sink_;
};

TEST_F(SinkOfAMember, TheDigestIsOfTheWeightsWithWhichTheRunEndsAlsoIfTheyAreWrittenBefore) {
  std::ranges::fill(weights_.tensor(0), 0.5F);
  write_checkpoint(4);
  EXPECT_FALSE(sink_->last_digest()) << "it only followed";
  decide(4, 4, true);
  ThreadPool threads(1);
  EXPECT_EQ(sink_->last_digest(), train::bytes_digest(std::as_const(weights_).bytes(), threads));
}

TEST_F(SinkOfAMember, TheLinkToTheBestGoesWithABetterOneThatThisMemberDoesNotHave) {
  write_checkpoint(1);
  decide(1, 1, false);
  EXPECT_TRUE(has_best());
  write_checkpoint(3);
  decide(3, 2, false);
  EXPECT_FALSE(has_best()) << "it was away at step 2";
}

}  // namespace
}  // namespace thinwire::member
