#include "thinwire/model/graph_model.h"

#include <utility>

#include "thinwire/base/clock.h"

namespace thinwire::model {
namespace {

// Norms, the embedding unless it is shared with the head, and gaps.
std::vector<ArenaRange> outside_products(const Graph& graph, const ModelParts& parts) {
  const int64_t head = graph.head().weight;
  std::vector<ArenaRange> products = {{head, head + parts.model.vocab * parts.model.hidden}};
  for (const Linear* linear : graph.products()) {
    for (const Linear::Part& part : linear->parts()) {
      products.push_back({part.offset, part.offset + part.outputs * linear->inputs()});
    }
  }
  return complement(std::move(products), parts.layout.total());
}

}  // namespace

GraphModel::GraphModel(const ModelParts& parts, std::unique_ptr<Ops> ops, MakeGraph make)
    : Model(parts),
      ops_(std::move(ops)),
      graph_(make(*ops_, parts.model, parts.layout, Purpose::kTraining)),
      others_(outside_products(*graph_, parts)),
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

double GraphModel::batch_gradients(float gradient_scale, tensor::Arena& gradients,
                                   const LayerReady& layer_ready, Gradients mode) {
  const TimedScope timed(seconds_);
  ops_->begin_batch(batch(), true);
  ops_->begin_gradients(gradients, mode, others_);
  graph_->forward(true);
  const Head head = graph_->head();
  ops_->cross_entropy_gradients(head.x_NC, head.weight, gradient_scale, head.dx_NC);
  if (layer_ready) {
    graph_->backward([&](int layer) {
      layer_ready(layer);
      if (layer >= 0) ops_->resume_gradients(gradients);
    });
  } else {
    graph_->backward({});
  }
  return ops_->loss();
}

}  // namespace thinwire::model
