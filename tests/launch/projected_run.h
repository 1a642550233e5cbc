// Runs whose optimizers may have their gradients projected in the backward pass.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/tiny_run.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {

inline std::vector<std::string> operator+(std::vector<std::string> fields,
                                          const std::vector<std::string>& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

class ProjectedRuns : public testing::Test {
 protected:
  ProjectedRuns() : folder_(test_folder(tests::memory_folder())) { prepare_tiny_corpus(folder_); }
  ~ProjectedRuns() override { fs::remove_all(folder_); }

  config::Recipe recipe(std::vector<std::string> fields) {
    const std::vector<std::string> common = {
        "eval.rows=8", "train.workers=1", "optim.lr=0.01", "optim.clip=0",
        fmt::format("run.dir={}/{}", folder_.string(), ++runs_)};
    fields.insert(fields.begin(), common.begin(), common.end());
    return tiny_recipe(folder_, fields);
  }
  events::Summary run(const std::vector<std::string>& fields) {
    return train(recipe(fields), {}).summary;
  }
  static double loss(const events::Summary& summary) { return summary.val_loss.at("validation"); }

  const std::vector<std::string> galore_ = {"optim.method=galore", "galore.rank=6",
                                            "galore.refresh=4"};
  const std::vector<std::vector<std::string>> optimizers_ = {
      galore_,
      galore_ + std::vector<std::string>{"galore.moments=rotate", "galore.ranks=[\"*.o_proj*=0\"]"},
      {"optim.method=natural_galore", "natural_galore.sides=two", "natural_galore.rank=6",
       "natural_galore.damping_is=relative"}};
  const std::vector<std::string> projected_ = {"optim.gradients=projected"};
  fs::path folder_;
  int runs_ = 0;
};

}  // namespace thinwire::launch
