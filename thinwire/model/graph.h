// What an architecture computes, as a sequence of operations (ops.h), forward and backward. One
// graph serves every backend and precision, training and decoding alike.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "thinwire/config/model_section.h"
#include "thinwire/model/ops.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::model {

enum class Purpose : uint8_t {
  kTraining,
  kDecoding,  // no backward pass, so blocks share their slots
};

using EndGroup = std::function<void(int group)>;

// Where the last product stands.
struct Head {
  int64_t weight;  // [vocabulary, C] in the arena
  Slot x_NC;       // its input: what forward() leaves
  Slot dx_NC;      // where backward() expects the input's gradient
};

class Graph {
 public:
  Graph() = default;
  virtual ~Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // From the batch's tokens to the head's input. keep: backward() follows.
  virtual void forward(bool keep) = 0;
  // From the gradient of the head's input to all gradients but the head's. Tells of each group
  // (base/gradient_groups.h) once no operation that follows reads its weights or adds to its
  // gradients.
  virtual void backward(const EndGroup& end_group) = 0;

  virtual Head head() const = 0;
  // All products but the head.
  virtual std::vector<const Linear*> products() const = 0;
};

// The graph of one architecture. ops and layout outlive it; the layout is the model's.
using MakeGraph = std::unique_ptr<Graph> (*)(Ops& ops, const config::ModelSection& model,
                                             const tensor::Layout& layout, Purpose purpose);

}  // namespace thinwire::model
