// Facts of Streaming DiLoCo (Douillard et al. 2025, arXiv 2501.18512): DiLoCo whose fragments of a
// few layers are sent one after another, in few bits a value, while training goes on. The table
// [streaming] holds OuterOptions; the code is in sync/outer.h.
#pragma once

#include "thinwire/method/outer.h"

namespace thinwire::method {

extern const Method kStreaming;

}  // namespace thinwire::method
