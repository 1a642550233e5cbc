#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdlib>
#include <vector>

#include "thinwire/model/torch_parts.h"

namespace thinwire::model {

struct TorchSlots::State {
  struct Values {
    int64_t width;
    at::TensorOptions options;
    at::Tensor tensor;  // once written
  };
  Values& at(Slot slot) { return slots[static_cast<size_t>(slot)]; }

  const at::TensorOptions options;
  std::vector<Values> slots = {};
  int64_t rows = 0;
};

TorchSlots::TorchSlots(const tensor::DevicePlace& place)
    : state_(new State{at::TensorOptions().device(torch_device(place))}) {}

TorchSlots::~TorchSlots() = default;

Slot TorchSlots::add(int64_t width, Precision precision) {
  const auto type = precision == Precision::kFp32 ? at::kFloat : at::kBFloat16;
  state_->slots.push_back({width, state_->options.dtype(type), {}});
  return static_cast<Slot>(state_->slots.size()) - 1;
}

void TorchSlots::set_rows(int64_t rows) { state_->rows = rows; }

int64_t TorchSlots::rows() const { return state_->rows; }

int64_t TorchSlots::width(Slot slot) const { return state_->at(slot).width; }

at::Tensor& TorchSlots::value(Slot slot) { return state_->at(slot).tensor; }

at::Tensor TorchSlots::fresh(Slot slot) {
  value(slot) = at::Tensor();
  return fitting(slot);
}

at::Tensor TorchSlots::fitting(Slot slot) {
  State::Values& values = state_->at(slot);
  if (!values.tensor.defined() || values.tensor.size(0) != state_->rows) {
    values.tensor = at::Tensor();
    values.tensor = at::empty({state_->rows, values.width}, values.options);
  }
  return values.tensor;
}

size_t TorchSlots::bytes() const {
  size_t sum = 0;
  for (const State::Values& values : state_->slots) {
    if (values.tensor.defined()) sum += values.tensor.nbytes();
  }
  return sum;
}

void choose_torch_arithmetic() {
  // cuBLAS reads it when it is first used. NOLINTNEXTLINE(concurrency-mt-unsafe)
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::globalContext().setDeterministicAlgorithms(true, false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  at::globalContext().setAllowBF16ReductionCuBLAS(false);
}

}  // namespace thinwire::model
