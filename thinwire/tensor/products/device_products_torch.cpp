// device_products.h with LibTorch.
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>

#include <string>

#include "thinwire/base/error.h"
#include "thinwire/tensor/products/device_products.h"

namespace thinwire::tensor {
void iterate_quintic(const DevicePlace& device, const OddQuintic& quintic, int steps, float* matrix,
                     int64_t rows, int64_t columns) {
  const c10::AutoGradMode no_gradients(false);
  try {
    const at::Tensor whole = at::from_blob(
        matrix, {rows, columns}, at::TensorOptions(at::kFloat).device(torch_device(device)));
    const at::Tensor wide = rows > columns ? whole.t() : whole;
    at::Tensor x = wide.div(wide.norm().clamp_min(1e-7)).to(at::kBFloat16);
    for (int step = 0; step < steps; ++step) {
      const at::Tensor a = at::mm(x, x.t());
      x = at::addmm(x, at::addmm(a, a, a, quintic.b, quintic.c), x, quintic.a);
    }
    wide.copy_(x);
  } catch (const c10::OutOfMemoryError& error) {
    throw Error("orthogonalising a matrix of " + std::to_string(rows) + " x " +
                std::to_string(columns) + ": " + error.what_without_backtrace());
  }
}

}  // namespace thinwire::tensor
