// A Model that computes a graph (graph.h) with the operations of one backend (ops.h).
#pragma once

#include <memory>
#include <vector>

#include "thinwire/base/gradient_groups.h"
#include "thinwire/model/graph.h"
#include "thinwire/model/model.h"

namespace thinwire::model {

class GraphModel final : public Model {
 public:
  // ops: made for these parts; only this graph uses its slots.
  GraphModel(const ModelParts& parts, std::unique_ptr<Ops> ops, MakeGraph make);

  void refresh() override { ops_->refresh(); }
  void refresh_frozen() override { ops_->refresh_frozen(); }
  PassTimes times() const override;
  tensor::StreamSize stream_size() const override { return stream_size_; }
  size_t activation_bytes() const override { return ops_->bytes() + batch().bytes(); }

 private:
  double batch_gradients(float gradient_scale, tensor::GradientSink& sink, tensor::Pass pass,
                         DocumentLoss* loss) override;
  double batch_loss(DocumentLoss* loss) override;
  std::vector<float> batch_logits() override;
  // The loss of the documents, from the head's input; afterwards factors_ has its derivatives.
  double document_loss(DocumentLoss& loss);

  // Reports the group to the sink if it has trained tensors.
  void end_group(tensor::GradientSink& sink, int group) const;

  const tensor::Layout layout_;  // of all tensors, trained and frozen
  const std::vector<GradientGroup> groups_;
  const int layers_;
  const std::unique_ptr<Ops> ops_;
  const std::unique_ptr<Graph> graph_;
  const tensor::StreamSize stream_size_;
  const bool timed_;
  double seconds_ = 0;          // of all passes
  std::vector<double> losses_;  // of the documents of a batch
  std::vector<float> factors_;  // of their positions
};

}  // namespace thinwire::model
