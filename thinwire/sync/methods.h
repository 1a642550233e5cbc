// The record of each folder of thinwire/methods.
#pragma once

#include "thinwire/sync/algorithm.h"

namespace thinwire::sync {

#define THINWIRE_METHOD(Name) extern const Algorithm k##Name;
#include "thinwire/methods/methods.inc"
#undef THINWIRE_METHOD

}  // namespace thinwire::sync
