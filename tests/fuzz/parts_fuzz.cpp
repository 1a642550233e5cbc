// libFuzzer target of membership::RecordJoiner (preset fuzz). If the first byte is even, the others
// are messages (each: 2 bytes of length, then the message behind the magic of a part). Otherwise
// they say which part of a record comes next, so that the fuzzer gets past the hash.
#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "target.h"
#include "thinwire/base/bytes.h"
#include "thinwire/membership/ledger.h"

namespace {

using thinwire::Bytes;
using thinwire::membership::kMaxRecordMessage;
using thinwire::membership::messages_of;
using thinwire::membership::RecordJoiner;

void take_anything(std::span<const uint8_t> data) {
  thinwire::ByteReader input(data);
  RecordJoiner joiner;
  while (input.ok() && input.remaining() > 0) {
    const auto rest = input.get_bytes(input.get<uint16_t>());
    Bytes message = {'T', 'W', 'L', 'P'};
    message.insert(message.end(), rest.begin(), rest.end());
    require(!joiner.take(message));  // a record has more bytes than all of these
  }
}

void take_parts(std::span<const uint8_t> order) {
  static const Bytes record(kMaxRecordMessage + 1, 7);
  static const std::vector<Bytes> parts = messages_of(record);
  RecordJoiner joiner;
  std::set<size_t> taken;
  constexpr size_t kTaken = 8;  // each is copied
  for (const uint8_t byte : order.first(std::min(order.size(), kTaken))) {
    const size_t part = byte % (parts.size() + 1);
    const bool is_other = part == parts.size();
    const auto whole = joiner.take(is_other ? Bytes{byte} : parts[part]);
    if (is_other) {
      require(whole == Bytes{byte});
      taken.clear();
      continue;
    }
    taken.insert(part);
    require(whole.has_value() == (taken.size() == parts.size()));
    if (!whole) continue;
    require(*whole == record);
    taken.clear();
  }
}

}  // namespace

FUZZ_TARGET(parts)(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    take_anything(rest);
  } else {
    take_parts(rest);
  }
  return 0;
}
