// A Model that computes a graph (graph.h) with the operations of one backend (ops.h).
#pragma once

#include <memory>
#include <vector>

#include "thinwire/model/graph.h"
#include "thinwire/model/model.h"

namespace thinwire::model {

class GraphModel final : public Model {
 public:
  // ops: made for these parts; only this graph uses its slots.
  GraphModel(const ModelParts& parts, std::unique_ptr<Ops> ops, MakeGraph make);

  void refresh() override { ops_->refresh(); }
  PassTimes times() const override;
  size_t activation_bytes() const override { return ops_->bytes() + batch().bytes(); }

 private:
  double batch_gradients(float gradient_scale, tensor::Arena& gradients,
                         const LayerReady& layer_ready, Gradients mode) override;
  double batch_loss() override;

  const std::unique_ptr<Ops> ops_;
  const std::unique_ptr<Graph> graph_;
  std::vector<ArenaRange> others_;  // ranges of the gradients outside all products
  const bool timed_;
  double seconds_ = 0;  // of all passes
};

}  // namespace thinwire::model
