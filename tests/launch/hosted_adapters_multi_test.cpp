// Runs on many hosts that train an adapter: members synchronise, store and save what they train,
// and have the base that it belongs to.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/errors.h"
#include "tests/launch/adapted_run.h"
#include "tests/launch/hosted_case.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/convert/hf.h"
#include "thinwire/convert/load.h"
#include "thinwire/convert/peft.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

using testing::HasSubstr;

class HostedAdapters : public HostedCase {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_adapter_base(folder_);
  }
  bool prepare_lora(int64_t steps, int workers = 2) {
    return prepare(steps, kPatient, workers, lora_fields(folder_));
  }
  void expect_the_bits_of_one_process() {
    const TrainResult expected = train(recipe_, {});
    HostedRun run(recipe_, folder_, options_);
    for (const int number : {0, 1}) run.start(number);
    for (const int number : {0, 1}) {
      const member::MemberResult result = run.wait(number);
      EXPECT_EQ(result.outcome, member::MemberOutcome::kFinished) << result.why;
      EXPECT_EQ(to_hex(result.digest), expected.summary.digest) << "member " << number;
    }
    run.wait_until_over();
  }
  // In round 8, where the run is held.
  static void let_the_last_of_three_leave(HostedRun& run) {
    run.hold_at(8);
    for (const int number : {0, 1, 2}) run.start(number);
    run.wait_until([](const membership::State& state) {
      return count(state, membership::Phase::kActive) == 3;
    });
    EXPECT_EQ(run.leave(2).outcome, member::MemberOutcome::kLeft);
  }
};

TEST_P(HostedAdapters, GiveTheBitsOfARunInOneProcess) {
  if (!prepare_lora(12)) GTEST_SKIP() << why_not_;
  expect_the_bits_of_one_process();
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedAdapters, testing::ValuesIn(adapted_variants()),
                         [](const auto& test) { return test.param.name; });

class HostedAdapterMembers : public HostedAdapters {};

TEST_P(HostedAdapterMembers, AJoinerEndsWithTheBitsOfTheOthers) {
  ASSERT_TRUE(prepare_lora(60)) << why_not_;
  expect_agreement_with_a_joiner();
}

TEST_P(HostedAdapterMembers, OneThatIsKilledAndReturnsEndsWithTheBitsOfTheOthers) {
  ASSERT_TRUE(prepare_lora(60, 3)) << why_not_;
  recipe_.checkpoint.every = 1;
  HostedRun run(recipe_, folder_, options_);
  let_the_last_of_three_leave(run);
  run.start(2);
  run.release();
  expect_agreement(run, {0, 1, 2});
}

INSTANTIATE_TEST_SUITE_P(
    Methods, HostedAdapterMembers,
    testing::ValuesIn(variants_named({"allreduce", "distro_overlap", "sparseloco", "diloco",
                                      "diloco_int1_weights", "streaming_inner"})),
    [](const auto& test) { return test.param.name; });

class HostedAdapterBases : public HostedAdapters {};

TEST_P(HostedAdapterBases, ThatAreAnotherAreRefusedWithBothDigests) {
  ASSERT_TRUE(prepare_lora(12)) << why_not_;
  const fs::path other = folder_ / "other";
  train(tiny_recipe(folder_, {"run.dir=" + other.string(), "train.steps=5", "train.workers=1"}),
        {});
  HostedRun run(recipe_, folder_, options_);
  run.start_with_base(0, other);
  const std::string why = tests::error_of([&] { run.wait(0); });
  const auto digest = [](const fs::path& base) {
    return to_hex(checkpoint::digest_weights(*convert::load_model(base).params));
  };
  EXPECT_THAT(
      why, HasSubstr("[train] init: the weights in " + other.string() + " have the digest " +
                     digest(other) + ", and those of the run's base " + digest(folder_ / "base")));
}

TEST_P(HostedAdapterBases, AreSentAsModelsAlone) {
  EXPECT_THAT(
      tests::error_of([&] { (void)convert::model_files(folder_ / "base"); }),
      HasSubstr("is a run's checkpoint, which also holds the state of its optimizer; export "
                "the model"));
  const fs::path exported = folder_ / "exported";
  convert::export_hf(folder_ / "base", exported, DType::kF32);
  EXPECT_THAT(convert::model_files(exported),
              testing::IsSupersetOf({exported / "config.json", exported / "model.safetensors"}));
}

TEST_P(HostedAdapterBases, ThatAreCopiesOfAnotherFormatServeAndFactorsAreExported) {
  ASSERT_TRUE(prepare_lora(12)) << why_not_;
  const fs::path copy = folder_ / "copy";
  convert::export_hf(folder_ / "base", copy, DType::kF32);
  HostedRun run(recipe_, folder_, options_);
  run.start(0);
  run.start_with_base(1, copy);
  expect_agreement(run, {0, 1});
  const fs::path peft = folder_ / "peft";
  convert::export_peft(folder_ / "member1", peft, DType::kF32);
  const auto expected = convert::load_model(folder_ / "member0");
  const auto got = convert::load_model(peft);
  EXPECT_TRUE(
      std::ranges::equal(std::as_const(*got.params).all(), std::as_const(*expected.params).all()));
}

TEST_P(HostedAdapterBases, MayBeElsewhereWhenAMemberReturns) {
  ASSERT_TRUE(prepare_lora(60, 3)) << why_not_;
  recipe_.checkpoint.every = 1;
  const fs::path moved = folder_ / "moved";
  fs::copy(folder_ / "base", moved, fs::copy_options::recursive);
  HostedRun run(recipe_, folder_, options_);
  let_the_last_of_three_leave(run);
  run.start_with_base(2, moved);
  run.release();
  expect_agreement(run, {0, 1, 2});
}

INSTANTIATE_TEST_SUITE_P(DiLoCo, HostedAdapterBases, testing::ValuesIn(variants_named({"diloco"})),
                         [](const auto& test) { return test.param.name; });

// Adapters whose base changes, begins at random, or is not there, and one in bf16.
class HostedAdapterKinds : public HostedAdapters {
 protected:
  bool prepare_kind(int64_t steps) {
    if (!prepare(steps)) return false;
    if (!recipe_.train.init.empty()) recipe_.train.init = (folder_ / "base").string();
    return true;
  }
};

TEST_P(HostedAdapterKinds, GiveTheBitsOfARunInOneProcess) {
  ASSERT_TRUE(prepare_kind(12)) << why_not_;
  expect_the_bits_of_one_process();
}

TEST_P(HostedAdapterKinds, AJoinerEndsWithTheBitsOfTheOthers) {
  ASSERT_TRUE(prepare_kind(60)) << why_not_;
  expect_agreement_with_a_joiner();
}

std::vector<Variant> kinds() {
  const auto variant = [](const char* method, const char* name, std::vector<std::string> fields) {
    return Variant{&method::find_method(method), name, std::move(fields)};
  };
  // If factors alone are trained, or once some rows are learnt, the norms of gradients differ too
  // much between members of few rows.
  const std::vector<std::string> relora = {
      "adapter.kind=relora",  "adapter.rank=4",  "adapter.whole=[\"embed_tokens\", \"*norm\"]",
      "relora.merge_every=5", "relora.rewarm=2", "optim.lr=1e-4"};
  std::vector<std::string> on_a_base = relora;
  on_a_base.emplace_back("train.init=BASE");
  return {variant("allreduce", "relora", relora),
          variant("allreduce", "relora_on_a_base", on_a_base),
          variant("diloco", "low_rank", {"adapter.kind=low_rank", "adapter.rank=4"}),
          variant("distro", "lora_on_bf16",
                  {"adapter.kind=lora", "adapter.rank=4", "train.init=BASE", "train.weights=bf16",
                   "train.precision=bf16"}),
          variant("diloco", "lora_on_nf4",
                  {"adapter.kind=lora", "adapter.rank=4", "train.init=BASE", "train.weights=nf4",
                   "train.precision=bf16"}),
          variant("diloco", "lora_on_int8",
                  {"adapter.kind=lora", "adapter.rank=4", "train.init=BASE", "train.weights=int8",
                   "train.precision=bf16"})};
}

INSTANTIATE_TEST_SUITE_P(Kinds, HostedAdapterKinds, testing::ValuesIn(kinds()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
