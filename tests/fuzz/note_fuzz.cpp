// libFuzzer target of launch::decode_note (preset fuzz).
#include <algorithm>
#include <cstdlib>
#include <span>

#include "target.h"
#include "thinwire/launch/notes.h"

FUZZ_TARGET(note)(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  const auto note = thinwire::launch::decode_note(bytes);
  if (!note) return 0;
  // Whatever decodes is encoded to the same bytes.
  const thinwire::Bytes again = thinwire::launch::encode_note(*note);
  if (!std::ranges::equal(again, bytes)) std::abort();
  return 0;
}
