// What an architecture computes, as a sequence of operations (ops.h), forward and backward. One
// graph serves every backend and precision, training and decoding alike.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/model/ops.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::model {

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

}  // namespace thinwire::model
