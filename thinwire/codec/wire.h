// Codecs of the formats in which sums are sent (base/wire.h; bytes: docs/formats.md). Every
// instruction set gives the same bits.
#pragma once

#include "thinwire/base/wire.h"

namespace thinwire::codec {

const WireCodec& wire_codec(WireType type);

}  // namespace thinwire::codec
