#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "thinwire/hosts/entrance.h"

namespace thinwire::hosts {
namespace {

class Enrolments : public testing::Test {
 protected:
  const std::unique_ptr<Signer> token_ = make_signer({1}), run_ = make_signer({2}),
                                key_ = make_signer({3}), other_ = make_signer({4});
  const Bytes bytes_ =
      encode_enrolment(run_->key(), key_->key(), *token_, Role::kAuditor, "my laptop");
};

TEST_F(Enrolments, SayWhichTokenTheirAuthorHasAndWhatItWants) {
  const auto enrolment = decode_enrolment(bytes_, run_->key(), key_->key());
  ASSERT_TRUE(enrolment) << enrolment.error().message;
  EXPECT_EQ(enrolment->token, token_->key());
  EXPECT_EQ(enrolment->role, Role::kAuditor);
  EXPECT_EQ(enrolment->machine, "my laptop");
}

TEST_F(Enrolments, OfMachinesWhoseNamesCannotBeShownAreRefused) {
  EXPECT_EQ(why_no_machine_name(""), "");
  EXPECT_EQ(why_no_machine_name(std::string(32, 'a')), "");
  for (const std::string& name :
       {std::string(33, 'a'), std::string("a\nb"), std::string("\x1b[2J"), std::string("\u009b2J"),
        std::string("\u202e"), std::string("\xff")}) {
    EXPECT_NE(why_no_machine_name(name), "");
    const Bytes bytes = encode_enrolment(run_->key(), key_->key(), *token_, Role::kMember, name);
    EXPECT_FALSE(decode_enrolment(bytes, run_->key(), key_->key()));
  }
}

// Whoever sees it cannot enrol another key with it, or the same one in another run.
TEST_F(Enrolments, AreOfOneKeyInOneRun) {
  EXPECT_FALSE(decode_enrolment(bytes_, run_->key(), other_->key()));
  EXPECT_FALSE(decode_enrolment(bytes_, other_->key(), key_->key()));
}

TEST_F(Enrolments, AreSignedByTheToken) {
  Bytes forged = encode_enrolment(run_->key(), key_->key(), *other_, Role::kAuditor, "my laptop");
  constexpr size_t kTokenAt = 6;  // behind magic and version
  std::copy_n(bytes_.begin() + kTokenAt, 32, forged.begin() + kTokenAt);
  EXPECT_FALSE(decode_enrolment(forged, run_->key(), key_->key()));
}

TEST_F(Enrolments, NothingElseIsOne) {
  EXPECT_FALSE(decode_enrolment({}, run_->key(), key_->key()));
  for (size_t size = 0; size < bytes_.size(); ++size) {
    EXPECT_FALSE(decode_enrolment(std::span(bytes_).first(size), run_->key(), key_->key()));
  }
  for (size_t at = 0; at < bytes_.size(); ++at) {
    Bytes altered = bytes_;
    altered[at] ^= 1;
    EXPECT_FALSE(decode_enrolment(altered, run_->key(), key_->key())) << at;
  }
}

}  // namespace
}  // namespace thinwire::hosts
