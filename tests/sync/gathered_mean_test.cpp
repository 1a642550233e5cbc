// Payloads of which all members use the encoded mean (fields sum_wire and sum_k).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/sync/hashed_run.h"
#include "thinwire/method/registry.h"
#include "thinwire/sync/committed_sum.h"

namespace thinwire::sync {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

HashedRunOptions options_of(const std::string& method, const std::string& fields, int workers = 3) {
  HashedRunOptions options;
  options.recipe =
      fmt::format("[train]\nsteps = 12\nworkers = {}\n[sync]\nmethod = \"{}\"\n[{}]\n{}", workers,
                  method, method, fields);
  options.tensors = {{"a", {16, 24}}, {"b", {37}, TensorRole::kNorm}};
  options.gradient_scales = {0.25f, 0.5f};
  options.workers = workers;
  return options;
}

std::vector<float> finished(const HashedRunOptions& options, int worker = 0) {
  HashedRun run(options);
  for (int step = 0; step < 12; ++step) EXPECT_TRUE(run.step(0.01f));
  const auto params = run.params(worker);
  return {params.begin(), params.end()};
}

constexpr const char* kLoco = "sync_every = 3\nchunk = 64\nk = 6\n";
constexpr const char* kDistro = "chunk = 8\nk = 5\nvalues = \"int8\"\nupdate = \"sgd\"\n";

TEST(GatheredMean, OfAllThatWasSentInFp32IsWhatReceivingAllGives) {
  for (const char* mean : {"mean_of_senders", "mean_of_all"}) {
    const std::string fields = fmt::format("{}aggregate = \"{}\"\n", kLoco, mean);
    HashedRunOptions same = options_of("sparseloco", fields);
    HashedRunOptions summed = options_of("sparseloco", fields + "sum_wire = \"fp32\"\n");
    same.weights = summed.weights = {0.375f, 0.375f, 0.25f};
    EXPECT_THAT(finished(summed), ElementsAreArray(finished(same))) << mean;
  }
  EXPECT_THAT(
      finished(options_of("distro", std::string(kDistro) + "sum_wire = \"fp32\"\n")),
      testing::Pointwise(testing::FloatNear(1e-6f), finished(options_of("distro", kDistro))))
      << "it is divided by the number of senders, which has no exact reciprocal";
}

TEST(GatheredMean, IsTheSameForEveryWorkerAndAnyNumberOfThreads) {
  for (const auto& [method, fields] :
       {std::pair("sparseloco", kLoco), std::pair("distro", kDistro)}) {
    HashedRunOptions options =
        options_of(method, std::string(fields) + "sum_wire = \"1bit\"\nsum_k = 8\n");
    const std::vector<float> first = finished(options);
    EXPECT_THAT(finished(options, 2), ElementsAreArray(first)) << method;
    options.threads = 3;
    EXPECT_THAT(finished(options), ElementsAreArray(first)) << method;
    EXPECT_NE(first, finished(options_of(method, fields))) << method;
  }
}

TEST(GatheredMean, OfADamagedPayloadIsAnErrorThatNamesItsMember) {
  for (const auto& [method, fields] :
       {std::pair("sparseloco", kLoco), std::pair("distro", kDistro)}) {
    HashedRunOptions options = options_of(method, std::string(fields) + "sum_wire = \"int8\"\n");
    options.tamper = [](uint64_t, int worker, Bytes& payload) {
      if (worker == 1) payload.back() ^= 1;
    };
    HashedRun run(options);
    Result<void> done;
    for (int step = 0; done && step < 3; ++step) done = run.step(0.01f);
    ASSERT_FALSE(done) << method;
    EXPECT_THAT(done.error().message, HasSubstr("payload of member 1")) << method;
  }
}

// What a coordinator forms for the members, one payload after another.
class CoordinatorsMean : public testing::TestWithParam<const char*> {
 protected:
  std::optional<SumRule> rule(const std::vector<std::string>& more) const {
    std::vector<std::string> fields = {std::string("sync.method=") + GetParam(),
                                       "sync.sums=coordinator", "model.vocab=64"};
    for (const std::string& one : more) fields.push_back(std::string(GetParam()) + "." + one);
    return sum_rule(method::load_recipe("", fields));
  }

  // As many payloads as have weights, each with all slots of its first tile and no others.
  static std::vector<transport::Delivery> payloads(const codec::SparseSumForm& form,
                                                   codec::PayloadMethod method, int members) {
    ThreadPool thread(1);
    const std::vector<codec::SparseShape> shapes = codec::shapes_of(form.sent);
    std::vector<transport::Delivery> all;
    for (int member = 0; member < members; ++member) {
      codec::SparseTiles tiles(shapes);
      tiles.counts[0] = static_cast<uint32_t>(shapes[0].kept);
      for (uint16_t i = 0; i < tiles.counts[0]; ++i) {
        tiles.slots[i] = static_cast<uint16_t>(i + member);
        tiles.values[i] = static_cast<float>(i % 5 + 1) * (member == 1 ? -1.0f : 1.0f);
      }
      for (size_t i = 0; i < shapes.size(); ++i) {
        codec::quantise(shapes[i], i, form.sent_values, tiles);
      }
      codec::PayloadId id;
      id.method = method;
      id.sender = static_cast<uint32_t>(member);
      Bytes bytes;
      codec::begin_payload(id, bytes);
      codec::encode_sparse(shapes, form.sent_values, tiles, thread, bytes);
      codec::seal_payload(bytes);
      all.push_back({member, std::make_shared<const Bytes>(std::move(bytes))});
    }
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(Methods, CoordinatorsMean, testing::Values("distro", "sparseloco"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(CoordinatorsMean, IsTheOneThatMembersForm) {
  const auto rule = this->rule({"sum_wire=int8", "sum_k=70"});
  ASSERT_TRUE(rule && rule->gathered);
  codec::PayloadId id;
  if (rule->gathered->by_share) id.method = codec::PayloadMethod::kSparseLoco;
  const auto deliveries = payloads(rule->gathered->form, id.method, 3);
  const std::vector<float> shares = {0.5f, 0.25f, 0.25f};
  std::vector<Contribution> listed;
  for (const auto& one : deliveries) listed.push_back({one.member, 0, {}, one.payload->size(), 1});

  const auto running = rule->begin(listed);
  for (size_t i = 0; i < deliveries.size(); ++i)
    ASSERT_TRUE(running->add(deliveries[i], shares[i]));
  const auto coded = running->finish(1);
  ASSERT_TRUE(coded);
  EXPECT_LE(coded->size(), rule->bytes(listed));
  EXPECT_TRUE(rule->fits(coded->size(), listed));
  EXPECT_FALSE(rule->fits(rule->bytes(listed) + 1, listed));

  ThreadPool threads(2);
  GatheredMean formed(*rule->gathered, threads), received(*rule->gathered, threads);
  const bool by_share = rule->gathered->by_share;
  ASSERT_TRUE(formed.take({deliveries, nullptr}, id, by_share ? shares : std::vector(3, 1.0f)));
  const auto sum = std::make_shared<const Bytes>(*coded);
  ASSERT_TRUE(received.accepts()(*sum));
  ASSERT_TRUE(received.take({{}, sum}, id, {}));
  const uint32_t count = formed.message().count(0);
  ASSERT_EQ(received.message().count(0), count);
  EXPECT_GT(count, 0u);
  std::vector<float> a(count), b(count);
  formed.message().read_values(0, 0, count, a.data());
  received.message().read_values(0, 0, count, b.data());
  EXPECT_EQ(a, b);
  const std::span<const uint16_t> ours(formed.message().slots(0), count);
  EXPECT_TRUE(std::ranges::equal(ours, std::span(received.message().slots(0), count)));
}

TEST_P(CoordinatorsMean, IsNotAcceptedIfItDoesNotDecode) {
  const auto rule = this->rule({"sum_wire=int8"});
  ThreadPool threads(1);
  GatheredMean mean(*rule->gathered, threads);
  EXPECT_FALSE(mean.accepts()(Bytes(7, 1)));
}

TEST_P(CoordinatorsMean, OfAPayloadThatIsNoneIsAFailure) {
  const auto running = rule({"sum_wire=int8"})->begin({});
  const transport::Delivery empty{0, std::make_shared<const Bytes>(Bytes(3))};
  EXPECT_FALSE(running->add(empty, 1));
  const transport::Delivery nonsense{0, std::make_shared<const Bytes>(Bytes(80, 9))};
  EXPECT_FALSE(running->add(nonsense, 1));
}

TEST_P(CoordinatorsMean, IsFormedOnlyWhereTheMethodHasOne) {
  EXPECT_FALSE(rule({}));
  EXPECT_TRUE(rule({"sum_wire=1bit"}));
}

}  // namespace
}  // namespace thinwire::sync
