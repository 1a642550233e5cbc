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

  explicit Copies(const ModelParts& parts)
      : params(parts.params),
        frozen(parts.frozen),
        fp32(at::TensorOptions(at::kFloat).device(torch_device(*parts.placement))),
        operand_type(parts.precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat) {}

  const Pair& of(int64_t offset) const { return is_trained(offset) ? trained_pair : frozen_pair; }
  static int64_t within(int64_t offset) {
    return is_trained(offset) ? offset : offset - tensor::kFrozenOffset;
  }

  tensor::Arena& params;
  const tensor::Arena* const frozen;
  const at::TensorOptions fp32;
  const at::ScalarType operand_type;
  Pair trained_pair, frozen_pair;
};

TorchParameters::TorchParameters(const ModelParts& parts)
    : copies_(std::make_unique<Copies>(parts)) {
  parts.params.mirror_on(*parts.placement);
  refresh();
  refresh_frozen();
}

TorchParameters::~TorchParameters() = default;

void TorchParameters::refresh() {
  const tensor::Arena& params = copies_->params;
  copies_->trained_pair.set(at::from_blob(const_cast<float*>(params.device_values()),
                                          {params.layout().total()}, copies_->fp32),
                            copies_->operand_type);
}

void TorchParameters::refresh_frozen() {
  if (copies_->frozen == nullptr) return;
  const std::span<const float> values = copies_->frozen->all();
  const at::Tensor host =
      at::from_blob(const_cast<float*>(values.data()), {static_cast<int64_t>(values.size())},
                    at::TensorOptions(at::kFloat));
  copies_->frozen_pair.set(host.to(copies_->fp32.device()), copies_->operand_type);
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
