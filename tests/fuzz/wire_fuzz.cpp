// libFuzzer target of the wire codecs (preset fuzz). The first two bytes choose the format and the
// number of values, so that lengths match often.
#include <cmath>
#include <vector>

#include "target.h"
#include "thinwire/base/bytes.h"
#include "thinwire/codec/wire.h"

FUZZ_TARGET(wire)(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto type = static_cast<thinwire::WireType>(data[0] % thinwire::kWireNames.size());
  const thinwire::WireCodec& codec = thinwire::codec::wire_codec(type);
  const std::span<const uint8_t> bytes(data + 2, size - 2);
  std::vector<float> values(size_t{data[1]} * 3);
  const bool decoded = codec.decode(bytes, values).has_value();
  require(!decoded || bytes.size() == thinwire::wire_bytes(type, values.size()));
  if (!decoded || thinwire::wire_block(type) == 1) return 0;
  for (const float value : values) require(std::isfinite(value));
  // Decoded values can be encoded again, unless they are so large that the sum for a mean is
  // infinite.
  for (const float value : values) {
    if (std::abs(value) > 1e36f) return 0;
  }
  thinwire::Bytes again(bytes.size());
  codec.encode(values, again);
  std::vector<float> second(values.size());
  require(codec.decode(again, second).has_value());
  return 0;
}
