// The digest of a GPU, formed on the CPU with one lane per row.
#include "tests/train/arena_digest_case.h"

namespace thinwire::train {
namespace {

TEST(DigestOnADevice, IsThatOfTheHost) { expect_same_digests({}); }

}  // namespace
}  // namespace thinwire::train
