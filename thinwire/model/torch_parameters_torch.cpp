#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <utility>

#include "thinwire/model/torch_parts.h"
#include "thinwire/model/weights.h"

namespace thinwire::model {

struct TorchParameters::Copies {
  // Values in fp32 and as operands.
  struct Pair {
    at::Tensor master, operands;

    void set(const at::Tensor& values, at::ScalarType type) {
      master = values;
      if (type == at::kFloat) {
        operands = values;
        return;
      }
      if (!operands.defined()) operands = at::empty(values.sizes(), values.options().dtype(type));
      operands.copy_(values);
    }
    size_t copied_bytes() const {
      return operands.defined() && operands.scalar_type() != at::kFloat ? operands.nbytes() : 0;
    }
  };

  Copies(const tensor::Arena& trained, const tensor::Arena* others,
         const tensor::DevicePlace& place, Precision precision)
      : params(trained),
        frozen(others),
        fp32(at::TensorOptions(at::kFloat).device(torch_device(place))),
        operand_type(precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat) {}

  // The values of an arena in fp32: its copy on the device, or one of their own.
  at::Tensor values_of(const tensor::Arena& arena) const {
    const int64_t count = arena.layout().total();
    if (arena.device() != nullptr) {
      return at::from_blob(const_cast<float*>(arena.device_values()), {count}, fp32);
    }
    if (arena.format() == WeightFormat::kBf16) {
      return at::from_blob(const_cast<Bf16*>(arena.bf16()), {count},
                           at::TensorOptions(at::kBFloat16))
          .to(fp32.device())
          .to(at::kFloat);
    }
    return at::from_blob(const_cast<float*>(arena.all().data()), {count},
                         at::TensorOptions(at::kFloat))
        .to(fp32.device());
  }

  const Pair& of(int64_t offset) const { return is_trained(offset) ? trained_pair : frozen_pair; }
  static int64_t within(int64_t offset) {
    return is_trained(offset) ? offset : offset - tensor::kFrozenOffset;
  }

  const tensor::Arena& params;
  const tensor::Arena* const frozen;
  const at::TensorOptions fp32;
  const at::ScalarType operand_type;
  Pair trained_pair, frozen_pair;
};

TorchParameters::TorchParameters(const tensor::Arena& params, const tensor::Arena* frozen,
                                 const tensor::DevicePlace& place, Precision precision)
    : copies_(std::make_unique<Copies>(params, frozen, place, precision)) {
  refresh();
  refresh_frozen();
}

TorchParameters::~TorchParameters() = default;

void TorchParameters::refresh() {
  copies_->trained_pair.set(copies_->values_of(copies_->params), copies_->operand_type);
}

void TorchParameters::refresh_frozen() {
  if (copies_->frozen == nullptr) return;
  copies_->frozen_pair.set(copies_->values_of(*copies_->frozen), copies_->operand_type);
}

const float* TorchParameters::values(int64_t offset) const {
  return copies_->of(offset).master.const_data_ptr<float>() + Copies::within(offset);
}

at::Tensor TorchParameters::matrix(int64_t offset, int64_t rows, int64_t columns) const {
  return copies_->of(offset)
      .operands.narrow(0, Copies::within(offset), rows * columns)
      .view({rows, columns});
}

size_t TorchParameters::copied_bytes() const {
  return copies_->trained_pair.copied_bytes() + copies_->frozen_pair.copied_bytes();
}

}  // namespace thinwire::model
