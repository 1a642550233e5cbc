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
    PrivacyLoss loss(file, privacy);
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
  EXPECT_THROW(PrivacyLoss(file, {}), Error);
}

}  // namespace
}  // namespace thinwire::member
