// Matrix products on a device by LibTorch, in its own order of sums: the bits differ between kinds
// of devices, so they are for values that no two replicas must agree on.
#pragma once

#include <cstdint>

#include "thinwire/tensor/storage/device.h"

namespace thinwire::tensor {

// x -> a x + b x^3 + c x^5
struct OddQuintic {
  float a, b, c;
};

// Replaces a row-major matrix of rows x columns in the device's memory by X after `steps` of
//   A = X X^T      X = a X + (b A + c A A) X
// which begin with X = matrix / max(norm, 1e-7), transposed if there are more rows than columns.
// Products take and give bf16 and are summed in fp32. Does not wait for the device. Throws Error if
// it lacks memory.
void iterate_quintic(const DevicePlace& device, const OddQuintic& quintic, int steps, float* matrix,
                     int64_t rows, int64_t columns);

}  // namespace thinwire::tensor
