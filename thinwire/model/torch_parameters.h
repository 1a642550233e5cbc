// The parameters of a model on a device of LibTorch: those that are trained are the device's copy
// of their arena (Arena::mirror_on), frozen ones a copy of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "thinwire/model/model.h"
#include "thinwire/tensor/storage/device.h"

namespace at {
class Tensor;
}
namespace c10 {
struct Device;
}

namespace thinwire::model {

c10::Device torch_device(const tensor::DevicePlace& place);

// Offsets are those of weights.h.
class TorchParameters {
 public:
  // Needs parts.placement. Throws Error when the device lacks memory.
  explicit TorchParameters(const ModelParts& parts);
  ~TorchParameters();
  TorchParameters(const TorchParameters&) = delete;
  TorchParameters& operator=(const TorchParameters&) = delete;

  // As the functions of the same name in Model.
  void refresh();
  void refresh_frozen();

  // In fp32, on the device.
  const float* values(int64_t offset) const;
  // As an operand [rows, columns] of matrix products.
  at::Tensor matrix(int64_t offset, int64_t rows, int64_t columns) const;

  // Of copies in another format than fp32.
  size_t copied_bytes() const;

 private:
  struct Copies;
  const std::unique_ptr<Copies> copies_;
};

}  // namespace thinwire::model
