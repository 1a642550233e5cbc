// Facts of local SGD (Stich 2019, arXiv 1805.09767): workers train apart and meet every so many
// steps; here with an outer step as DiLoCo has it, or with plain averaging. The table [local_sgd]
// holds OuterOptions; the code is in sync/outer.h.
#pragma once

#include "thinwire/method/outer.h"

namespace thinwire::method {

extern const Method kLocalSgd;

}  // namespace thinwire::method
