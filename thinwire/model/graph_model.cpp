#include "thinwire/model/graph_model.h"

#include <algorithm>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/method/memory/memory.h"

namespace thinwire::model {
namespace {

tensor::Layout layout_of(const ModelParts& parts) {
  if (parts.frozen == nullptr) return parts.layout;
  return tensor::Layout::joined(parts.layout, parts.frozen->layout());
}

// What is trained arrives as products, and as the tensors that belong to none, or their slabs; a
// tied head's gradient is not complete before the pass ends.
tensor::StreamSize stream_size_of(const Graph& graph, const tensor::Layout& layout,
                                  const ModelParts& parts) {
  tensor::StreamSize size;
  const Head head = graph.head();
  const bool tied = head.embeds && is_trained(head.weight);
  if (tied) size.held = {head.weight, head.outputs * parts.model.hidden};
  const int64_t slabs = tied || parts.placement ? 1 : parts.model.vocab_slabs;
  for (const Linear* linear : graph.products()) {
    for (const Linear::Part& part : linear->parts()) {
      if (!is_trained(part.offset)) continue;
      size.largest = std::max(size.largest, linear->range(part).count);
    }
  }
  for (size_t i = 0; i < layout.size(); ++i) {
    if ((tied && layout.offset(i) == head.weight) || !is_trained(layout.offset(i))) continue;
    size.largest = std::max(size.largest, method::formed_elements(layout.specs()[i], slabs));
  }
  return size;
}

}  // namespace

GraphModel::GraphModel(const ModelParts& parts, std::unique_ptr<Ops> ops, MakeGraph make)
    : Model(parts),
      layout_(layout_of(parts)),
      groups_(gradient_groups(parts.layout.specs())),
      layers_(static_cast<int>(parts.model.layers)),
      ops_(std::move(ops)),
      graph_(make(*ops_, parts.model, layout_, Purpose::kTraining)),
      stream_size_(stream_size_of(*graph_, layout_, parts)),
      timed_(!parts.placement) {}

PassTimes GraphModel::times() const {
  if (!timed_) return {};
  PassTimes times = ops_->times();
  times.all = seconds_;
  return times;
}

double GraphModel::batch_loss(DocumentLoss* loss) {
  const TimedScope timed(seconds_);
  ops_->begin_batch(batch(), false);
  graph_->forward(false);
  if (loss != nullptr) return document_loss(*loss);
  const Head head = graph_->head();
  ops_->cross_entropy(head);
  return ops_->loss();
}

std::vector<float> GraphModel::batch_logits() {
  ops_->begin_batch(batch(), false);
  graph_->forward(false);
  const Head head = graph_->head();
  std::vector<float> out(class_targets(batch(), head.outputs).first.size() *
                         static_cast<size_t>(head.outputs));
  ops_->head_logits(head, out);
  return out;
}

double GraphModel::document_loss(DocumentLoss& loss) {
  const Head head = graph_->head();
  losses_.resize(batch().documents().size());
  factors_.resize(losses_.size());
  ops_->document_losses(head, losses_);
  return loss.form(batch(), losses_, factors_);
}

double GraphModel::batch_gradients(float gradient_scale, tensor::GradientSink& sink,
                                   tensor::Pass pass, DocumentLoss* loss) {
  const TimedScope timed(seconds_);
  ops_->begin_batch(batch(), true);
  ops_->begin_gradients(sink, pass);
  graph_->forward(true);
  const Head head = graph_->head();
  double formed = 0;
  if (loss != nullptr) {
    formed = document_loss(*loss);
    batch().reweigh(factors_);
    ops_->take_weights(batch());
  }
  ops_->cross_entropy_gradients(head, gradient_scale);
  ops_->head_bias_backward(head);
  graph_->backward([&](int group) { end_group(sink, group); });
  return loss == nullptr ? ops_->loss() : formed;
}

// The graph numbers groups by the model's blocks, a sink by those with trained tensors.
void GraphModel::end_group(tensor::GradientSink& sink, int group) const {
  for (const GradientGroup& trained : groups_) {
    const TensorSpec& tensor = layout_.specs()[trained.tensors.front()];
    if (gradient_group(tensor, layers_) == group) return sink.end_group(trained.number);
  }
}

}  // namespace thinwire::model
