// Workers of one run as threads over the local transport, each with its own copy of the parameters,
// for tests of DisTrO: gradients are a function of (seed, step, worker, tensor, element), as in
// tests/golden/make_distro.py.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/tensor/arena.h"

namespace thinwire::sync {

struct GradientSource {
  uint64_t seed = 1;
  std::vector<float> scales;  // a tensor, a power of two
  float param_scale = 0.25f;

  void fill(uint64_t step, uint64_t worker, float scale_of_all, tensor::Arena& out) const;
  void fill_gradients(uint64_t step, uint64_t worker, tensor::Arena& out) const;
  void fill_params(tensor::Arena& out) const;
};

struct ClusterOptions {
  config::Recipe recipe;
  std::vector<TensorSpec> tensors;
  GradientSource source;
  std::vector<float> learning_rates;  // a step
  int workers = 1;
  int threads = 1;  // a worker
  // Members whose payload nobody gets, at a step.
  std::function<std::set<int>(uint64_t step)> missing = [](uint64_t) { return std::set<int>(); };
  // Changes a payload before it is sent.
  std::function<void(uint64_t step, int worker, Bytes& payload)> tamper = [](uint64_t, int,
                                                                             Bytes&) {};
};

class Cluster {
 public:
  explicit Cluster(ClusterOptions options);
  ~Cluster();

  // Steps [done, done + count) on all workers at once. Throws what a worker threw; a Failure is
  // kept in failures().
  void run(uint64_t count);

  const tensor::Layout& layout() const { return layout_; }
  std::span<const float> params(int worker, size_t tensor) const;
  std::span<const float> all_params(int worker) const;
  std::vector<float> state(int worker, const std::string& name) const;
  const std::vector<double>& norms(int worker) const;
  transport::TrafficCount traffic(int worker) const;
  std::vector<Failure> failures() const;

 private:
  struct Member;
  void step(Member& member, uint64_t number);

  ClusterOptions options_;
  tensor::Layout layout_;
  std::vector<std::unique_ptr<Member>> members_;
  uint64_t done_ = 0;
};

// A recipe with every method's section, read from `toml`.
config::Recipe recipe_of(const std::string& toml);

}  // namespace thinwire::sync
