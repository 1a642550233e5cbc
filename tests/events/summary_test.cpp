#include "thinwire/events/summary.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "thinwire/base/error.h"

namespace thinwire::events {
namespace {

using testing::HasSubstr;

// A separate file for each test, because tests run at the same time.
fs::path test_file() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return fs::path(testing::TempDir()) / fmt::format("summary_{}.json", test->name());
}

Summary example() {
  Summary summary;
  summary.name = "quickstart";
  summary.method = "diloco";
  summary.within = "allreduce";
  summary.workers = 4;
  summary.steps = 300;
  summary.tokens = 1'228'800;
  summary.params = 2'900'000;
  summary.params_non_embedding = 2'400'000;
  summary.train_loss = 4.5;
  summary.train_loss_steps = 30;
  summary.val_loss = {{"validation", 4.6}, {"bible", 5.1}};
  summary.scores = {{"arc_easy.acc", 0.25}};
  summary.bytes_sent_per_worker_step = 9000;
  summary.bytes_received_per_worker_step = 27000;
  summary.ratio_ring = 322.2;
  summary.ratio_ring_sent = 966.6;
  summary.ratio_report = 644.4;
  summary.seconds = 80.5;
  summary.seconds_over_links = 96.25;
  summary.compute_utilization = 0.75;
  summary.link_down_bit_s = 100e6;
  summary.link_up_bit_s = 10e6;
  summary.tokens_per_second = 15264.5;
  summary.peak_memory_bytes = 512'000'000;
  summary.digest = "00112233445566ff";
  return summary;
}

std::string read_error(std::string_view text) {
  write_file(test_file(), text);
  try {
    read_summary(test_file());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Summary, ReadsBackEveryField) {
  const Summary written = example();
  write_summary(test_file(), written);
  const Summary read = read_summary(test_file());
  EXPECT_EQ(read.name, written.name);
  EXPECT_EQ(read.method, written.method);
  EXPECT_EQ(read.within, written.within);
  EXPECT_EQ(read.workers, written.workers);
  EXPECT_EQ(read.steps, written.steps);
  EXPECT_EQ(read.tokens, written.tokens);
  EXPECT_EQ(read.params, written.params);
  EXPECT_EQ(read.params_non_embedding, written.params_non_embedding);
  EXPECT_EQ(read.train_loss, written.train_loss);
  EXPECT_EQ(read.train_loss_steps, written.train_loss_steps);
  EXPECT_EQ(read.val_loss, written.val_loss);
  EXPECT_EQ(read.scores, written.scores);
  EXPECT_EQ(read.bytes_sent_per_worker_step, written.bytes_sent_per_worker_step);
  EXPECT_EQ(read.bytes_received_per_worker_step, written.bytes_received_per_worker_step);
  EXPECT_EQ(read.ratio_ring, written.ratio_ring);
  EXPECT_EQ(read.ratio_ring_sent, written.ratio_ring_sent);
  EXPECT_EQ(read.ratio_report, written.ratio_report);
  EXPECT_EQ(read.seconds, written.seconds);
  EXPECT_EQ(read.seconds_over_links, written.seconds_over_links);
  EXPECT_EQ(read.compute_utilization, written.compute_utilization);
  EXPECT_EQ(read.link_down_bit_s, written.link_down_bit_s);
  EXPECT_EQ(read.link_up_bit_s, written.link_up_bit_s);
  EXPECT_EQ(read.tokens_per_second, written.tokens_per_second);
  EXPECT_EQ(read.peak_memory_bytes, written.peak_memory_bytes);
  EXPECT_EQ(read.digest, written.digest);
}

TEST(Summary, ALossThatIsNotANumberSurvives) {
  Summary summary = example();
  summary.train_loss = std::numeric_limits<double>::infinity();
  write_summary(test_file(), summary);
  EXPECT_THAT(read_text_file(test_file()), HasSubstr("\"train_loss\": null"));
  EXPECT_TRUE(std::isnan(read_summary(test_file()).train_loss));
}

TEST(Summary, OlderFilesLackWhatCameLater) {
  write_summary(test_file(), example());
  std::string text = read_text_file(test_file());
  for (const char* key : {"  \"compute_utilization\"", "  \"train_loss_steps\"", "  \"within\""}) {
    const size_t at = text.find(key);
    ASSERT_NE(at, std::string::npos) << key;
    text.erase(at, text.find('\n', at) + 1 - at);
  }
  write_file(test_file(), text);
  const Summary read = read_summary(test_file());
  EXPECT_EQ(read.compute_utilization, 0);
  EXPECT_EQ(read.within, "none");
  EXPECT_EQ(describe_train_loss(read), "moving average");
}

TEST(Summary, SaysWhatTheTrainingLossIs) {
  Summary summary;
  summary.train_loss_steps = 1;
  EXPECT_EQ(describe_train_loss(summary), "of the last step");
  summary.train_loss_steps = 50;
  EXPECT_EQ(describe_train_loss(summary), "mean of the last 50 steps");
}

TEST(Summary, NamesTheKeyThatIsMissing) {
  EXPECT_EQ(read_error("{}"), test_file().string() + ": \"name\" is missing; it must be a string");
}

TEST(Summary, NamesTheKeyOfAWrongType) {
  write_summary(test_file(), example());
  std::string text = read_text_file(test_file());
  text.replace(text.find("300"), 3, "\"x\"");
  EXPECT_EQ(read_error(text), test_file().string() + ": \"steps\" must be an integer, is \"x\"");
}

TEST(Summary, RefusesWhatIsNotJson) {
  EXPECT_EQ(read_error("{\"name\": "), test_file().string() +
                                           " is damaged: it is not JSON; remove it, and "
                                           "`thinwire train` writes it again");
  EXPECT_THAT(read_error("[1]"), HasSubstr("must be a JSON object, is [1]"));
}

}  // namespace
}  // namespace thinwire::events
