// How LibTorch computes in this program.
#pragma once

namespace thinwire::model {

// Makes LibTorch's operations deterministic: the same inputs give the same bits, and sums of
// products are fp32. Must be called before its first operation on a GPU.
void choose_torch_arithmetic();

}  // namespace thinwire::model
