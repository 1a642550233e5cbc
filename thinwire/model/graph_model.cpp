#include "thinwire/model/graph_model.h"

#include <algorithm>
#include <utility>

#include "thinwire/base/clock.h"

namespace thinwire::model {
namespace {

bool is_embedding(const tensor::Layout& layout, int64_t offset) {
  for (size_t i = 0; i < layout.size(); ++i) {
    if (layout.offset(i) == offset) return layout.specs()[i].role == TensorRole::kEmbedding;
  }
  return false;
}

// The products, and the tensors that belong to none; a tied head's gradient is not complete before
// the pass ends.
tensor::StreamSize stream_size_of(const Graph& graph, const tensor::Layout& layout,
                                  const tensor::GradientRange& head, bool tied) {
  tensor::StreamSize size;
  if (tied) size.held = head;
  for (const Linear* linear : graph.products()) {
    for (const Linear::Part& part : linear->parts()) {
      size.largest = std::max(size.largest, linear->range(part).count);
    }
  }
  for (size_t i = 0; i < layout.size(); ++i) {
    if (tied && layout.offset(i) == head.offset) continue;
    size.largest = std::max(size.largest, layout.specs()[i].count());
  }
  return size;
}

}  // namespace

GraphModel::GraphModel(const ModelParts& parts, std::unique_ptr<Ops> ops, MakeGraph make)
    : Model(parts),
      ops_(std::move(ops)),
      graph_(make(*ops_, parts.model, parts.layout, Purpose::kTraining)),
      head_{graph_->head().weight, parts.model.vocab * parts.model.hidden},
      tied_(is_embedding(parts.layout, head_.offset)),
      stream_size_(stream_size_of(*graph_, parts.layout, head_, tied_)),
      timed_(!parts.placement) {}

PassTimes GraphModel::times() const {
  if (!timed_) return {};
  PassTimes times = ops_->times();
  times.all = seconds_;
  return times;
}

double GraphModel::batch_loss() {
  const TimedScope timed(seconds_);
  ops_->begin_batch(batch(), false);
  graph_->forward(false);
  const Head head = graph_->head();
  ops_->cross_entropy(head.x_NC, head.weight);
  return ops_->loss();
}

double GraphModel::batch_gradients(float gradient_scale, tensor::GradientSink& sink,
                                   tensor::Pass pass) {
  const TimedScope timed(seconds_);
  ops_->begin_batch(batch(), true);
  ops_->begin_gradients(sink, pass);
  graph_->forward(true);
  const Head head = graph_->head();
  ops_->cross_entropy_gradients(head.x_NC, head.weight, gradient_scale, head.dx_NC);
  if (!tied_) sink.complete(head_);
  graph_->backward([&](int group) { sink.end_group(group); });
  return ops_->loss();
}

}  // namespace thinwire::model
