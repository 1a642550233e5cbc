// The slots of the LibTorch backend (ops.h): tensors [rows, width], allocated when they are
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "thinwire/model/ops.h"
#include "thinwire/tensor/storage/device.h"

namespace at {
class Tensor;
}

namespace thinwire::model {

class TorchSlots {
 public:
  explicit TorchSlots(const tensor::DevicePlace& place);
  ~TorchSlots();
  TorchSlots(const TorchSlots&) = delete;
  TorchSlots& operator=(const TorchSlots&) = delete;

  Slot add(int64_t width, Precision precision);
  // Rows of what is written from now on: tokens, or texts with a class.
  void set_rows(int64_t rows);
  int64_t rows() const;
  int64_t width(Slot slot) const;

  // What was last written there.
  at::Tensor& value(Slot slot);
  // Gives the slot new uninitialised memory; holders of the old values keep them.
  at::Tensor fresh(Slot slot);
  // Gives the slot memory for its rows, its existing memory if that is as large.
  at::Tensor fitting(Slot slot);

  size_t bytes() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace thinwire::model
