#include "tests/train/arena_digest_case.h"

namespace thinwire::train {
namespace {

TEST(DigestOnAGpu, IsThatOfTheHost) {
  if (tensor::cuda_device_count() == 0) GTEST_SKIP() << "no GPU: " << tensor::cuda_status();
  expect_same_digests({Device::kCuda, 0});
}

}  // namespace
}  // namespace thinwire::train
