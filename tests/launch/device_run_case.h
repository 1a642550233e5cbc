// Complete runs on a device against those on the CPU, for the tests of both kinds of device.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tiny_run.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {

// They differ by rounding alone, and repeat bit for bit.
inline void expect_same_runs(const std::string& device) {
  const fs::path folder = test_folder();
  prepare_tiny_corpus(folder);
  for (const char* method : {"allreduce", "distro"}) {
    for (const int workers : {1, 4}) {
      const auto run = [&](const std::string& on, const char* name) {
        const fs::path dir = folder / fmt::format("{}-{}", method, workers) / name;
        return train(tiny_recipe(folder,
                                 {"run.dir=" + dir.string(), fmt::format("sync.method={}", method),
                                  fmt::format("train.workers={}", workers), "train.batch=4",
                                  "train.device=" + on}),
                     {})
            .summary;
      };
      const events::Summary own = run("cpu", "own"), other = run(device, "device");
      const std::string what = fmt::format("{}, {} workers", method, workers);
      EXPECT_NEAR(other.val_loss.at("validation"), own.val_loss.at("validation"), 1e-3) << what;
      EXPECT_EQ(run(device, "again").digest, other.digest) << what;
    }
  }
}

// The products of Muon's steps are the device's own where workers have weights of their own, which
// differ by the rounding of bf16, and only there.
inline void expect_near_muon_runs(const std::string& device) {
  const fs::path folder = test_folder();
  prepare_tiny_corpus(folder);
  const std::vector<std::vector<std::string>> cases = {{"sync.method=allreduce"},
                                                       {"sync.method=diloco"},
                                                       {"sync.method=diloco", "optim.state=8bit"}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto run = [&](const std::string& on, const char* name) {
      const fs::path dir = folder / std::to_string(i) / name;
      std::vector<std::string> fields = cases[i];
      fields.insert(fields.end(), {"run.dir=" + dir.string(), "train.workers=2",
                                   "optim.method=muon", "train.device=" + on});
      return train(tiny_recipe(folder, fields), {}).summary;
    };
    const events::Summary own = run("cpu", "own"), other = run(device, "device");
    EXPECT_NEAR(other.val_loss.at("validation"), own.val_loss.at("validation"), 5e-3) << i;
    EXPECT_EQ(run(device, "again").digest, other.digest) << i;
  }
}

}  // namespace thinwire::launch
