// device_products.h without LibTorch.
#include "thinwire/base/error.h"
#include "thinwire/tensor/products/device_products.h"

namespace thinwire::tensor {

void iterate_quintic(const DevicePlace&, const OddQuintic&, int, float*, int64_t, int64_t) {
  throw Error("products on a device were asked for in a program built without LibTorch");
}

}  // namespace thinwire::tensor
