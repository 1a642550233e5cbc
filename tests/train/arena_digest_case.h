// The digest formed on a device against the host's, for the tests of both kinds of device.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <utility>

#include "thinwire/base/digest.h"
#include "thinwire/base/rng.h"
#include "thinwire/train/params_digest.h"

namespace thinwire::train {

// Less than a chunk, a chunk, little more than chunks in the three ways that the hash tells lengths
// apart, and more than a thread block takes.
inline void expect_same_digests(const tensor::DevicePlace& device) {
  constexpr int64_t kChunk = kDigestChunk / 4;
  ThreadPool threads(2);
  for (const int64_t count : {int64_t{16}, kChunk - 16, kChunk, kChunk + 16, kChunk + 48,
                              3 * kChunk + 64, 40 * kChunk + 4096}) {
    const tensor::Layout layout({{"a", {count}, TensorRole::kNorm}});
    tensor::Arena arena(layout);
    Rng rng(static_cast<uint64_t>(count), 0);
    for (float& value : arena.all())
      value = std::bit_cast<float>(static_cast<uint32_t>(rng.bits()));
    const uint64_t expected = bytes_digest(std::as_const(arena).bytes(), threads);
    arena.mirror_on(device);
    arena.device_values();  // the host's side is out of date from here on
    ArenaDigest digest;
    EXPECT_EQ(digest.of(arena, threads), expected) << count;
    arena.device_values();
    EXPECT_EQ(digest.of(arena, threads), expected) << count << ", again";
    arena.all()[0] += 1;
    EXPECT_EQ(digest.of(arena, threads), bytes_digest(std::as_const(arena).bytes(), threads))
        << count;
  }
}

}  // namespace thinwire::train
