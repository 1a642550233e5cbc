// libFuzzer target of member::decode_snapshot (preset fuzz): whatever decodes is encoded to the
// same bytes if its parts are in the order of their names.
#include <algorithm>
#include <cstdlib>
#include <span>
#include <vector>

#include "target.h"
#include "thinwire/member/snapshot.h"

FUZZ_TARGET(snapshot)(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  const auto snapshot = thinwire::member::decode_snapshot(bytes);
  if (!snapshot) return 0;
  std::vector<thinwire::NamedValues> parts;
  for (const auto& [name, values] : snapshot->consensus) parts.push_back({name, values});
  const thinwire::Bytes again = thinwire::member::encode_snapshot(
      snapshot->run, snapshot->completed, snapshot->weights, parts);
  if (again.size() != size) std::abort();
  if (parts.size() < 2 && !std::ranges::equal(again, bytes)) std::abort();
  return 0;
}
