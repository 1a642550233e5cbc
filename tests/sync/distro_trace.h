// The run that a golden trace of DisTrO describes.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/sync/hashed_run.h"

namespace thinwire::sync {

// From a trace's options, which must outlive the result: all but the recipe and the pull.
inline HashedRunOptions options_of_trace(const nlohmann::json& trace) {
  using nlohmann::json;
  HashedRunOptions options;
  options.seed = std::stoull(trace["seed"].get<std::string>(), nullptr, 16);
  options.param_scale = trace["param_scale"];
  options.workers = trace["workers"];
  for (const json& tensor : trace["tensors"]) {
    const Shape shape = tensor["shape"];
    const TensorRole role = shape.size() == 1 ? TensorRole::kNorm : TensorRole::kMatrix;
    options.tensors.push_back({tensor["name"], shape, role});
    options.gradient_scales.push_back(tensor["grad_scale"]);
  }
  options.missing = [&trace](uint64_t round) {
    for (const json& gap : trace["missing"]) {
      if (gap["round"] == round) return gap["workers"].get<std::set<int>>();
    }
    return std::set<int>();
  };
  return options;
}

}  // namespace thinwire::sync
