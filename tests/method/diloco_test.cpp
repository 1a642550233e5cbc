// Facts of local SGD, DiLoCo and related methods.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"
#include "thinwire/method/within.h"
#include "thinwire/methods/diloco/diloco_spec.h"
#include "thinwire/methods/sparseloco/sparseloco_spec.h"

namespace thinwire::method {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

config::Recipe recipe_with(std::vector<std::string> overrides) {
  overrides.push_back("model.vocab=100");
  return load_recipe("", overrides);
}

std::string refusal(const std::string& method, std::vector<std::string> fields,
                    const std::vector<std::string>& others = {}) {
  for (std::string& field : fields) field = method + "." + field;
  fields.push_back("sync.method=" + method);
  fields.insert(fields.end(), others.begin(), others.end());
  try {
    load_recipe("", fields);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(DiLoCo, PresetsDifferInTheirDefaultsOnly) {
  const config::Recipe recipe = load_recipe("", {});
  const auto options = [&](const char* preset) -> const DilocoOptions& {
    EXPECT_EQ(find_method(preset).algorithm, "diloco");
    return recipe.section<DilocoOptions>(preset);
  };
  EXPECT_EQ(options("local_sgd").sync_every, 32);
  EXPECT_EQ(options("diloco").sync_every, 100);
  EXPECT_EQ(options("streaming").sync_every, 100);
  EXPECT_EQ(options("streaming").fragment_layers, 3);
  EXPECT_EQ(options("streaming").wire, WireType::kFp4);
  EXPECT_EQ(options("streaming").overlap, Overlap::kInner);
  EXPECT_THAT(refusal("diloco", {"fragment_layers=3"}), HasSubstr("no field 'fragment_layers'"));
}

TEST(DiLoCo, ContradictionsAreErrorsThatSayWhy) {
  EXPECT_THAT(refusal("diloco", {"overlap_steps=3"}),
              HasSubstr("[diloco] overlap_steps = 3 needs overlap = \"inner\", got \"none\""));
  EXPECT_THAT(refusal("diloco", {"overlap=eager", "mix=0.2"}),
              HasSubstr("[diloco] mix = 0.2 needs overlap = \"inner\", got \"eager\""));
  EXPECT_THAT(refusal("local_sgd", {"overlap=delayed", "depth=2"}),
              HasSubstr("[local_sgd] depth = 2 needs overlap = \"eager\", got \"delayed\""));
  EXPECT_THAT(refusal("diloco", {"overlap_after=5"}),
              HasSubstr("[diloco] overlap_after = 5 needs overlap = \"inner\", \"delayed\" or "
                        "\"eager\", got \"none\""));
  EXPECT_THAT(refusal("diloco", {"overlap=inner", "overlap_steps=100"}),
              HasSubstr("overlap_steps must be < sync_every / fragments = 100 / 1, got 100"));
  EXPECT_THAT(refusal("diloco", {"wire=fp32", "error_feedback=true"}),
              HasSubstr("fp32 has no error to feed back"));
  EXPECT_THAT(refusal("diloco", {"outer=average", "outer_lr=0.5"}),
              HasSubstr("outer_lr = 0.5 contradicts outer = \"average\""));
  EXPECT_THAT(refusal("diloco", {"outer=sgd", "outer_momentum=0.5"}),
              HasSubstr("outer_momentum = 0.5 needs outer = \"nesterov\" or \"momentum\""));
  EXPECT_THAT(refusal("diloco", {"error_in=weights"}),
              HasSubstr("error_in = \"weights\" needs error_feedback = true"));
  EXPECT_THAT(refusal("streaming", {"error_feedback=true", "error_in=weights"}),
              HasSubstr("error_in = \"weights\" needs overlap = \"none\", got \"inner\""));
  EXPECT_THAT(refusal("streaming", {"slices=4", "fragment_layers=2"}),
              HasSubstr("fragment_layers = 2 contradicts slices = 4"));
  EXPECT_THAT(refusal("diloco", {"slices=4"}), HasSubstr("no field 'slices'"));
  EXPECT_EQ(refusal("diloco", {"wire=int1", "error_feedback=true", "error_in=weights"}),
            "accepted");
  EXPECT_EQ(refusal("diloco", {"overlap=inner", "overlap_steps=99", "mix=0"}), "accepted");
  EXPECT_EQ(refusal("diloco", {"overlap=eager", "depth=2"}), "accepted");
}

TEST(Fragments, TakeLayersInStridedOrderWithTheEndsAtTheEnds) {
  method::ModelSpec model;
  model.layers = 7;
  model.vocab = 10;
  model.options<LlamaOptions>().intermediate = 64;
  const auto tensors = method::tensors_of(model);
  const auto fragments = fragments_of(tensors, 3);
  for (size_t t = 0; t < tensors.size(); ++t) {
    const TensorSpec& tensor = tensors[t];
    const int64_t expected = tensor.layer >= 0                       ? tensor.layer % 3
                             : tensor.role == TensorRole::kEmbedding ? 0
                                                                     : 2;
    EXPECT_EQ(fragments[t], expected) << tensor.name;
  }
  EXPECT_THAT(fragments_of(tensors, 0), testing::Each(0));
  EXPECT_THAT(fragments_of(tensors, 7), testing::Each(0));
}

TEST(Slices, AreWholeLinesAndTogetherTheTensor) {
  for (const int64_t lines : {1, 4, 7, 100}) {
    for (const int64_t slices : {1, 3, 5, 64}) {
      EXPECT_EQ(slice_begin(16 * lines, 0, slices), 0);
      EXPECT_EQ(slice_begin(16 * lines, slices, slices), 16 * lines);
      for (int64_t slice = 0; slice < slices; ++slice) {
        const int64_t begin = slice_begin(16 * lines, slice, slices);
        const int64_t count = slice_begin(16 * lines, slice + 1, slices) - begin;
        EXPECT_EQ(begin % 16, 0);
        EXPECT_GE(count, 16 * (lines / slices));
        EXPECT_LE(count, 16 * (lines / slices + 1));
      }
    }
  }
}

// Everyone receives what every other sends.
TEST(DiLoCoTraffic, OfOneBitIsThatOfAGather) {
  const config::Recipe recipe = recipe_with(
      {"sync.method=diloco", "train.steps=400", "diloco.sync_every=100", "diloco.wire=int1"});
  const auto tensors = method::tensors_of(recipe);
  const auto bytes =
      static_cast<double>(wire_bytes(WireType::kInt1, uint64_t(arena_elements(tensors))));
  const Traffic traffic = find_method("diloco").traffic(recipe, tensors, 4);
  EXPECT_DOUBLE_EQ(traffic.sent_bytes, bytes / 100);
  EXPECT_DOUBLE_EQ(traffic.received_bytes, 3 * bytes / 100);
}

TEST(DiLoCoTraffic, IsTheAllReducesOverTheStepsBetween) {
  const config::Recipe recipe =
      recipe_with({"sync.method=diloco", "train.steps=400", "diloco.sync_every=100"});
  const auto tensors = method::tensors_of(recipe);
  const Traffic diloco = find_method("diloco").traffic(recipe, tensors, 4);
  const Traffic allreduce = find_method("allreduce").traffic(recipe, tensors, 4);
  EXPECT_DOUBLE_EQ(diloco.sent_bytes * 100, allreduce.sent_bytes);
  EXPECT_DOUBLE_EQ(diloco.round_trips * 100, allreduce.round_trips);
  EXPECT_TRUE(diloco.exact);
}

// Steps completed when the sums are waited for that open after each step of a run of 12 steps.
std::vector<int64_t> due_of(const std::vector<std::string>& fields) {
  std::vector<std::string> all = {"sync.method=diloco", "train.steps=12", "diloco.sync_every=2"};
  for (const std::string& field : fields) all.push_back("diloco." + field);
  const config::Recipe recipe = recipe_with(all);
  const auto tensors = method::tensors_of(recipe);
  std::vector<int64_t> due;
  for (int64_t step = 0; step < 12; ++step) {
    for (const Operation& opened :
         find_method("diloco").operations(recipe, tensors, RunKind::kJob)(step)) {
      due.push_back(opened.due);
    }
  }
  return due;
}

TEST(DiLoCoOperations, AreWaitedForAtOnceUntilTheOverlapBegins) {
  EXPECT_THAT(due_of({"overlap=eager", "depth=2"}), ElementsAre(6, 8, 10, 12, 12, 12));
  EXPECT_THAT(due_of({"overlap=eager", "depth=2", "overlap_after=2"}),
              ElementsAre(2, 4, 10, 12, 12, 12));
  EXPECT_THAT(due_of({"overlap=inner", "overlap_after=3"}), ElementsAre(2, 4, 6, 9, 11, 12));
  EXPECT_THAT(due_of({"overlap=delayed", "overlap_after=100"}), ElementsAre(2, 4, 6, 8, 10, 12));
}

TEST(Clusters, AreConsecutiveAndAsEvenAsCanBe) {
  const Clusters clusters{7, 3};
  EXPECT_EQ(clusters.first(0), 0);
  EXPECT_EQ(clusters.first(1), 2);
  EXPECT_EQ(clusters.first(2), 4);
  EXPECT_EQ(clusters.size(2), 3);
  EXPECT_EQ(clusters.of(1), 0);
  EXPECT_EQ(clusters.of(4), 2);
  EXPECT_EQ(clusters.of(6), 2);
}

std::string refused(std::vector<std::string> fields) {
  fields.push_back("train.workers=4");
  try {
    load_recipe("", fields);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

// A recipe corrected as the message says is accepted, and messages name only what is wrong.
TEST(Within, MessagesNameAllThatClustersNeed) {
  const std::string apart =
      "a method whose workers train independently (local_sgd, diloco, streaming, sparseloco)";
  const std::string within =
      "override 'sync.within=distro': [sync] within = \"distro\" needs " + apart +
      " and clusters >= 1 and <= [train] workers = 4, got method = \"allreduce\", which "
      "synchronises all workers every step";
  EXPECT_EQ(refused({"sync.within=distro"}), within);
  EXPECT_EQ(refused({"train.steps=50", "sync.clusters=2", "sync.within=distro"}), within);
  EXPECT_EQ(refused({"sync.clusters=2"}),
            "override 'sync.clusters=2': [sync] clusters = 2 needs within = \"allreduce\" or "
            "\"distro\", got \"none\", and " +
                apart);
  EXPECT_EQ(refused({"sync.method=streaming", "sync.within=distro", "sync.clusters=2"}),
            "accepted");
}

TEST(Within, ContradictionsAreErrorsThatSayWhy) {
  const std::vector<std::string> diloco = {"sync.method=diloco", "sync.within=distro"};
  const auto with = [&](std::vector<std::string> fields) {
    fields.insert(fields.end(), diloco.begin(), diloco.end());
    return refused(fields);
  };
  EXPECT_THAT(with({}), HasSubstr("within = \"distro\" needs clusters >= 1 and <= [train] workers "
                                  "= 4, got none"));
  EXPECT_THAT(with({"optim.lr=1", "sync.clusters=5"}),
              AllOf(HasSubstr("[sync] clusters must be <= [train] workers = 4, got 5"),
                    HasSubstr("'sync.clusters=5' and"), Not(HasSubstr("optim.lr"))));
  EXPECT_THAT(with({"sync.clusters=2", "distro.client=stateless", "distro.local_steps=3"}),
              HasSubstr("within = \"distro\" needs [distro] local_steps = 1, got 3"));
}

TEST(SparseLoco, ChunksAreFlatAndTheLastOneShorter) {
  SparseLocoOptions options;
  options.chunk = 100;
  options.k = 8;
  const std::vector<TensorSpec> tensors = {{"a", {10, 25}}, {"b", {30}}, {"c", {200}}};
  const ChunkPlan chunks = plan_chunks(tensors, options);
  EXPECT_THAT(chunks.parts, testing::ElementsAre(0, 2, 3, 4));
  const auto& parts = chunks.plan.tensors;
  EXPECT_EQ(parts[0].tiles(), 2);
  EXPECT_EQ(parts[0].kept, 8);
  EXPECT_EQ(parts[1].slots(), 50);
  EXPECT_EQ(parts[1].kept, 4);
  EXPECT_EQ(parts[1].first_kept, 16);
  EXPECT_EQ(parts[2].kept, 2);  // 2.4
  EXPECT_EQ(parts[3].tiles(), 2);
  EXPECT_EQ(chunks.plan.tiles, 6);
  EXPECT_THAT(refusal("sparseloco", {"chunk=16", "k=17"}),
              HasSubstr("k must be <= chunk = 16, got 17"));
}

TEST(SparseLoco, RefusesAMeanOfItsOwnWhereARuleJudgesContributions) {
  EXPECT_THAT(refusal("sparseloco", {"sum_k=70"}),
              HasSubstr("[sparseloco] sum_k = 70 needs a sum_wire other than \"same\""));
  EXPECT_THAT(refusal("sparseloco", {"sum_wire=2bit"}, {"sync.aggregate=majority_vote"}),
              HasSubstr("[sparseloco] sum_wire = \"2bit\" needs sync.aggregate = \"mean\""));
}

TEST(SparseLoco, KeepsItsOldName) {
  const config::Recipe recipe =
      recipe_with({"sync.method=sparse", "sparse.k=5", "schedule.warmup=3"});
  EXPECT_EQ(recipe.sync.method, "sparseloco");
  EXPECT_EQ(recipe.section<SparseLocoOptions>("sparseloco").k, 5);
  EXPECT_THAT(recipe.notices,
              testing::ElementsAre("sync.method = \"sparse\" is now called \"sparseloco\"",
                                   "[sparse] is now called [sparseloco]"));
  EXPECT_EQ(config::print_changes(recipe, recipe_with({})),
            "schedule.warmup = 3\nsync.method = \"sparse\"\nsparse.k = 5\n")
      << "what identifies runs, and so their folders, stays";
}

TEST(DiLoCoTraffic, CountsTheSendAtTheEnd) {
  const std::vector<TensorSpec> tensors = {{"a", {16}}};
  const auto sent = [&](const std::string& steps) {
    return find_method("diloco").traffic(recipe_with({"train.steps=" + steps}), tensors, 2);
  };
  EXPECT_DOUBLE_EQ(sent("100").sent_bytes * 100, 32);
  EXPECT_DOUBLE_EQ(sent("101").sent_bytes * 101, 64);
  EXPECT_DOUBLE_EQ(sent("7").sent_bytes * 7, 32);
}

TEST(DiLoCo, PseudoGradientsTakeABufferWhereTheWeightsAreStillNeeded) {
  DilocoOptions options;
  EXPECT_FALSE(options.passes_buffer(1));
  EXPECT_TRUE(options.passes_buffer(2));
  options.overlap = Overlap::kInner;
  EXPECT_FALSE(options.passes_buffer(2));  // they stay in flight
  options.overlap_steps = 0;
  EXPECT_TRUE(options.passes_buffer(1));  // the weights are mixed with the sum
}

}  // namespace
}  // namespace thinwire::method
