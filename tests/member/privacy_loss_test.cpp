#include "thinwire/member/privacy_loss.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"

namespace thinwire::member {
namespace {

TEST(PrivacyLoss, CountsOverAllProcessesAndSaysWhatIsSpent) {
  const fs::path file = test_folder() / kPrivacyFile;
  config::PrivacySection privacy;
  privacy.clip = 1;
  privacy.noise = 4;
  for (int process = 0; process < 5; ++process) {
    PrivacyLoss loss(file, privacy, {.has_trained = process > 0});
    EXPECT_EQ(loss.contributions(), 10u * process);
    for (int i = 0; i < 10; ++i) loss.add();
  }
  const auto json = parse_json<nlohmann::json>(read_text_file(file));
  EXPECT_EQ(json.at("contributions"), 50);
  EXPECT_NEAR(json.at("epsilon").get<double>(), 9.23495899168, 1e-6);
}

TEST(PrivacyLoss, ADamagedCountIsNoNewBeginning) {
  const fs::path file = test_folder() / kPrivacyFile;
  write_file(file, "{\"contributions\": ");
  EXPECT_THROW(PrivacyLoss(file, {}, {}), Error);
  for (const char* count : {"-3", "1.5", "\"3\""}) {
    write_file(file, std::string("{\"contributions\": ") + count + "}");
    EXPECT_THROW(PrivacyLoss(file, {}, {}), Error) << count;
  }
}

TEST(PrivacyLoss, AMissingCountIsNoNewBeginningForWhoHasTrained) {
  const fs::path file = test_folder() / kPrivacyFile;
  EXPECT_THROW(PrivacyLoss(file, {}, {.has_trained = true}), Error);
  { PrivacyLoss(file, {}, {}); }
  EXPECT_EQ(PrivacyLoss(file, {}, {.has_trained = true}).contributions(), 0u);
}

TEST(PrivacyLoss, WhatWouldTellMoreThanTheLimitIsNotSent) {
  const fs::path file = test_folder() / kPrivacyFile;
  config::PrivacySection privacy;
  privacy.clip = 1;
  privacy.noise = 4;
  PrivacyLoss loss(file, privacy, {.most_epsilon = 9.234});
  for (int i = 0; i < 49; ++i) loss.add();
  EXPECT_THROW(loss.add(), Error) << "50 tell 9.235";
  EXPECT_EQ(contributions_in(file), 49u);
  EXPECT_THROW(PrivacyLoss(file, privacy, {.most_epsilon = 9.234}).add(), Error);
  PrivacyLoss(file, privacy, {.most_epsilon = 9.235}).add();
}

}  // namespace
}  // namespace thinwire::member
