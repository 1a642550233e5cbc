// Whether weights and state hold neither infinities nor what is no number.
#pragma once

#include "thinwire/base/named_span.h"
#include "thinwire/base/threads.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::train {

// Eight-bit codes are finite.
bool all_finite(const NamedValues& state, ThreadPool& threads);
bool all_finite(const tensor::Arena& weights, ThreadPool& threads);

}  // namespace thinwire::train
