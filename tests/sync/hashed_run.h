// Runs of strategies for tests: replicas fed with gradients that are a function of (seed, step,
// worker, tensor, element), as in tests/golden/make_distro.py and make_outer.py, over a transport
// that can lose and damage payloads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sync/replicas.h"

namespace thinwire::sync {

struct HashedRunOptions {
  std::string recipe;  // TOML; names the method
  std::vector<TensorSpec> tensors;
  int workers = 1;
  int threads = 1;  // a worker
  uint64_t seed = 1;
  std::vector<float> gradient_scales;  // a tensor; powers of two
  float pull = 0;  // this times the weights at which they are taken is added to gradients
  float param_scale = 0.25f;
  std::vector<float> weights;  // a worker; empty: equal
  // By first step, where they change later; 0: the worker is inactive.
  std::map<uint64_t, std::vector<float>> weights_from;
  // Workers whose contribution the commits of a round leave out.
  std::function<std::set<int>(uint64_t round)> missing;
  // Sees, and may change, a payload before it is sent.
  std::function<void(uint64_t round, int worker, Bytes& payload)> tamper;
};

class HashedRun {
 public:
  explicit HashedRun(HashedRunOptions options);

  // The next step of all workers; the first failure, if any.
  Result<void> step(float lr);

  Replicas& replicas() { return *replicas_; }
  const config::Recipe& recipe() const { return recipe_; }
  // The weights the replicas agree on.
  std::span<const float> params(int worker) { return replicas_->shared(worker).all(); }
  std::span<const float> params(int worker, size_t tensor) {
    return replicas_->shared(worker).tensor(tensor);
  }
  std::span<const float> state(int worker, const std::string& name);
  double norm(int worker) const { return norms_[static_cast<size_t>(worker)]; }
  bool synchronised() const { return synchronised_; }

 private:
  void fill(uint64_t step, uint64_t worker, const std::vector<float>& scales,
            tensor::Arena& out) const;
  // The projections of such gradients, of the tensors whose gradients the optimizer projects.
  void fill_projected(uint64_t step, int worker, tensor::Arena& out);

  HashedRunOptions options_;
  config::Recipe recipe_;
  std::unique_ptr<Replicas> replicas_;
  std::vector<double> norms_;  // of the last step
  bool synchronised_ = false;  // in the last step
  uint64_t done_ = 0;
};

}  // namespace thinwire::sync
