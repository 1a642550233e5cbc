#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/codec/payload.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/codec/value_sketch.h"
#include "thinwire/codec/wire.h"

namespace thinwire::codec {
namespace {

auto refused(std::string_view why) { return fail(FailureKind::kCorruptPayload, std::string(why)); }

// Contributions to dense sums: values and nothing else.
class DenseReader final : public PayloadReader {
 public:
  DenseReader(WireType wire, WireType longest, uint64_t seed)
      : codec_(wire_codec(wire)),
        longest_(wire_codec(longest)),
        piece_(kPieceValues),
        sketch_(seed) {}

  Result<PayloadContent> read(std::span<const uint8_t> payload, PayloadId,
                              uint64_t max_bytes) override {
    const uint64_t usual = longest_.type == codec_.type
                               ? max_bytes
                               : wire_bytes(codec_.type, max_bytes / sizeof(float));
    if (payload.size() != max_bytes && payload.size() != usual) {
      return refused(fmt::format("it has {} bytes where {} are expected", payload.size(), usual));
    }
    const WireCodec& codec = payload.size() == max_bytes ? longest_ : codec_;
    PayloadContent content{{}, payload, {}};
    sketch_.clear();
    uint64_t read = 0;
    const size_t piece_bytes = wire_bytes(codec.type, kPieceValues);
    for (size_t first = 0; first < payload.size(); first += piece_bytes) {
      const auto coded = payload.subspan(first, std::min(piece_bytes, payload.size() - first));
      const auto values = std::span(piece_).first(wire_values(codec.type, coded.size()));
      if (const auto done = codec.decode(coded, values); !done) {
        return tl::unexpected(done.error());
      }
      measure(values, content.magnitude);
      sketch_.add(read, values);
      read += values.size();
    }
    if (!content.magnitude.finite()) return refused("it has a value that is not finite");
    content.direction = sketch_.direction();
    return content;
  }
  bool weighted() const override { return true; }

 private:
  static constexpr size_t kPieceValues = 16384;  // whole blocks of every format

  const WireCodec& codec_;
  const WireCodec& longest_;
  std::vector<float> piece_;
  ValueSketch sketch_;
};

// All slots of all tensors, one after the other, are the elements of one vector.
void add_to(ValueSketch& sketch, const SparseMessage& message,
            std::span<const SparseShape> shapes) {
  std::vector<uint64_t> firsts;  // by tensor, the element at which it begins
  uint64_t elements = 0;
  for (const SparseShape& shape : shapes) {
    firsts.push_back(elements);
    elements += static_cast<uint64_t>(shape.tiles) * static_cast<uint64_t>(shape.slots);
  }
  std::vector<float> values;
  for (size_t index = 0; index < message.segments().size(); ++index) {
    const SparseSegment& segment = message.segments()[index];
    const SparseShape& shape = shapes[segment.tensor];
    int64_t read = 0;
    for (int64_t tile = segment.first_tile; tile < segment.first_tile + segment.tiles; ++tile) {
      const uint32_t count = message.count(shape.first_tile + tile);
      values.resize(count);
      message.read_values(index, read, count, values.data());
      read += count;
      const uint64_t first =
          firsts[segment.tensor] + static_cast<uint64_t>(tile) * static_cast<uint64_t>(shape.slots);
      const uint16_t* const slots = message.slots(shape.first_kept + tile * shape.kept);
      for (uint32_t i = 0; i < count; ++i) sketch.add(first + slots[i], {&values[i], 1});
    }
  }
}

// A header and a sparse message.
class SparseReader final : public PayloadReader {
 public:
  SparseReader(PayloadMethod method, ValueFormat format, std::vector<SparseShape> shapes,
               uint64_t seed)
      : method_(method), shapes_(std::move(shapes)), message_(shapes_, format), sketch_(seed) {}

  Result<PayloadContent> read(std::span<const uint8_t> payload, PayloadId id,
                              uint64_t /*max_bytes*/) override {
    id.method = method_;
    const auto body = open_payload(payload, id);
    if (!body) return tl::unexpected(body.error());
    if (const auto done = message_.open(*body); !done) return tl::unexpected(done.error());
    if (const auto done = message_.decode(0, message_.segments().size()); !done) {
      return tl::unexpected(done.error());
    }
    PayloadContent content{magnitude_of(message_, shapes_), *body, {}};
    if (!content.magnitude.finite()) return refused("it has a value that is not finite");
    sketch_.clear();
    add_to(sketch_, message_, shapes_);
    content.direction = sketch_.direction();
    return content;
  }
  bool weighted() const override { return method_ == PayloadMethod::kDistro; }

 private:
  const PayloadMethod method_;
  const std::vector<SparseShape> shapes_;
  SparseMessage message_;
  ValueSketch sketch_;
};

}  // namespace

std::unique_ptr<PayloadReader> dense_reader(WireType wire, WireType longest, uint64_t seed) {
  return std::make_unique<DenseReader>(wire, longest, seed);
}

std::unique_ptr<PayloadReader> sparse_reader(PayloadMethod method, ValueFormat format,
                                             std::vector<SparseShape> shapes, uint64_t seed) {
  return std::make_unique<SparseReader>(method, format, std::move(shapes), seed);
}

}  // namespace thinwire::codec
