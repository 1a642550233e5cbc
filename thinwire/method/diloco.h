// Facts of DiLoCo (Douillard et al. 2023, arXiv 2311.08105): workers train apart for many steps,
// then a Nesterov step follows their mean difference. The table [diloco] holds OuterOptions; the
// code is in sync/outer.h.
#pragma once

#include "thinwire/method/outer.h"

namespace thinwire::method {

extern const Method kDiloco;

}  // namespace thinwire::method
