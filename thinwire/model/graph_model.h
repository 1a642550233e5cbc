// A Model that computes a graph with the operations of one backend (ops.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "thinwire/base/gradient_groups.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/model/model.h"
#include "thinwire/model/ops.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::model {

// What an architecture computes, as a sequence of operations (ops.h), forward and backward. One
// graph serves every backend and precision, training and decoding alike.
enum class Purpose : uint8_t {
  kTraining,
  kDecoding,  // no backward pass, so blocks share their slots
};

using EndGroup = std::function<void(int group)>;

class Graph {
 public:
  Graph() = default;
  virtual ~Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Computes the head's input from the batch's tokens. keep: backward() follows.
  virtual void forward(bool keep) = 0;
  // Computes all gradients but the head's from the gradient of the head's input. Reports each group
  // (base/gradient_groups.h) once no later operation reads its weights or adds to its gradients.
  virtual void backward(const EndGroup& end_group) = 0;

  virtual Head head() const = 0;
  // All products but the head.
  virtual std::vector<const Linear*> products() const = 0;
};

// Makes the graph of one architecture. ops and layout must outlive it; the layout is the model's.
using MakeGraph = std::unique_ptr<Graph> (*)(Ops& ops, const method::ModelSpec& model,
                                             const tensor::Layout& layout, Purpose purpose);

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
