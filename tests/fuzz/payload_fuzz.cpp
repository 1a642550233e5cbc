// libFuzzer target of codec::PayloadReader (preset fuzz): what a coordinator makes of the bytes
// that members offer. The first byte chooses the method and its number format, and whether the rest
// is a payload or, so that the fuzzer gets past the checksum, the part behind a payload's header.
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "target.h"
#include "thinwire/methods/allreduce/allreduce_spec.h"
#include "thinwire/methods/diloco/diloco_spec.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/methods/sparseloco/sparseloco_spec.h"
#include "thinwire/sync/algorithm.h"

namespace {

using thinwire::Bytes;
using thinwire::ValueFormat;
using thinwire::WireType;
using thinwire::codec::PayloadId;
using thinwire::codec::PayloadMethod;
using thinwire::codec::PayloadReader;
using thinwire::sync::make_payload_reader;

struct Entry {
  std::unique_ptr<PayloadReader> reader;
  bool sparse = false;
  PayloadMethod method = PayloadMethod::kDistro;
};

std::vector<Entry> make_entries() {
  const thinwire::tensor::Layout layout({{"matrix", {16, 8}, thinwire::TensorRole::kMatrix},
                                         {"norm", {8}, thinwire::TensorRole::kNorm}});
  std::vector<Entry> entries;
  for (const WireType wire : {WireType::kF32, WireType::kBf16, WireType::kFp8, WireType::kFp4}) {
    thinwire::method::AllReduceOptions options;
    options.wire = wire;
    entries.push_back({make_payload_reader({"allreduce", options}, {.layout = layout})});
    thinwire::method::DilocoOptions outer;
    outer.wire = wire;
    entries.push_back({make_payload_reader({"diloco", outer}, {.layout = layout})});
  }
  for (const ValueFormat values : {ValueFormat::kF32, ValueFormat::kBf16, ValueFormat::kOneBit}) {
    thinwire::method::DistroOptions options;
    options.values = values;
    entries.push_back({make_payload_reader({"distro", options}, {.layout = layout}), true});
  }
  const thinwire::method::SparseLocoOptions options;
  entries.push_back({make_payload_reader({"sparseloco", options}, {.layout = layout}), true,
                     PayloadMethod::kSparseLoco});
  return entries;
}

}  // namespace

FUZZ_TARGET(payload)(const uint8_t* data, size_t size) {
  static const std::vector<Entry> entries = make_entries();
  if (size == 0) return 0;
  const Entry& entry = entries[data[0] / 2 % entries.size()];
  PayloadId id;
  id.method = entry.method;
  id.run = 7;
  id.sender = 2;
  id.round = 5;
  Bytes payload;
  const bool sealed = entry.sparse && data[0] % 2 == 0;
  if (sealed) thinwire::codec::begin_payload(id, payload);
  payload.insert(payload.end(), data + 1, data + size);
  if (sealed) thinwire::codec::seal_payload(payload);
  const auto content = entry.reader->read(payload, id, payload.size());
  if (content) {
    require(content->magnitude.finite());
    require(content->body.size() <= payload.size());
    // A method whose payloads are all of one length has one that is.
    if (!entry.sparse) require(!entry.reader->read(payload, id, payload.size() + 1));
  }
  return 0;
}
