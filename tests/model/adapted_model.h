// Tiny models with adapters, for tests.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/tiny_model.h"
#include "thinwire/method/adapters/adapter.h"

namespace thinwire::model {

inline method::AdapterSpec small_adapter(method::AdapterKind kind = method::AdapterKind::kLora) {
  method::AdapterSpec adapter;
  adapter.kind = kind;
  adapter.rank = 4;
  adapter.alpha = 6;
  return adapter;
}

// The trained tensors of a model and the frozen ones, all random.
struct AdaptedModel {
  AdaptedModel(const method::ModelSpec& section, method::AdapterSpec spec, int thread_count = 1)
      : model(section),
        adapter(std::move(spec)),
        layout(method::adapted_tensors(section, adapter).trained),
        frozen_layout(method::adapted_tensors(section, adapter).frozen),
        params(layout),
        gradients(layout),
        frozen(frozen_layout),
        threads(thread_count) {
    init_parameters(params, model, 5);
    init_parameters(frozen, model, 5);
  }

  ModelParts parts(Precision precision, int64_t rows, int64_t sequence,
                   const Placement& placement = {}) {
    return {model,    precision, layout,
            params,   threads,   rows,
            sequence, placement, frozen_layout.size() == 0 ? nullptr : &frozen,
            adapter};
  }
  std::unique_ptr<Model> make(Precision precision, int64_t rows, int64_t sequence,
                              const Placement& placement = {}) {
    return make_model(parts(precision, rows, sequence, placement));
  }

  method::ModelSpec model;
  method::AdapterSpec adapter;
  tensor::Layout layout, frozen_layout;
  tensor::Arena params, gradients, frozen;
  ThreadPool threads;
};

}  // namespace thinwire::model
