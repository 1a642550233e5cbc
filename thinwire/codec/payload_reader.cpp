#include "thinwire/codec/payload_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/codec/sparse.h"
#include "thinwire/codec/sparse_rows.h"
#include "thinwire/codec/value_sketch.h"
#include "thinwire/codec/wire.h"
#include "thinwire/method/allreduce.h"
#include "thinwire/method/diloco.h"
#include "thinwire/method/distro.h"
#include "thinwire/method/sparseloco.h"

namespace thinwire::codec {
namespace {

auto refused(std::string_view why) { return fail(FailureKind::kCorruptPayload, std::string(why)); }

// Contributions to dense sums: values and nothing else.
class DenseReader final : public PayloadReader {
 public:
  // `longest`: the format in which the operation's size is stated. Both formats are read.
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

using Made = std::unique_ptr<PayloadReader>;

WireType wire_of_allreduce(const config::Section& section) {
  return dynamic_cast<const method::AllReduceOptions&>(section).wire;
}

std::optional<WireType> sums_of_allreduce(const config::Section& section) {
  return wire_of_allreduce(section);
}

std::optional<WireType> sums_of_diloco(const config::Section& section) {
  const auto& options = dynamic_cast<const method::DilocoOptions&>(section);
  return options.gathers() ? std::nullopt : std::optional(options.wire);
}

Made read_allreduce(const config::Section& section, const tensor::Layout&, bool lone_worker,
                    uint64_t seed) {
  const WireType wire = wire_of_allreduce(section);
  return std::make_unique<DenseReader>(wire, lone_worker ? WireType::kF32 : wire, seed);
}

Made read_diloco(const config::Section& section, const tensor::Layout&, bool /*lone_worker*/,
                 uint64_t seed) {
  const WireType wire = dynamic_cast<const method::DilocoOptions&>(section).wire;
  return std::make_unique<DenseReader>(wire, wire, seed);
}

Made read_distro(const config::Section& section, const tensor::Layout& layout, bool /*lone_worker*/,
                 uint64_t seed) {
  const auto& options = dynamic_cast<const method::DistroOptions&>(section);
  return std::make_unique<SparseReader>(
      PayloadMethod::kDistro, options.values,
      shapes_of(method::plan_tiles(layout.specs(), options.tiles())), seed);
}

Made read_sparseloco(const config::Section& section, const tensor::Layout& layout,
                     bool /*lone_worker*/, uint64_t seed) {
  const auto& options = dynamic_cast<const method::SparseLocoOptions&>(section);
  return std::make_unique<SparseReader>(
      PayloadMethod::kSparseLoco, ValueFormat::kTwoBit,
      shapes_of(method::plan_chunks(layout.specs(), options).plan), seed);
}

struct ReaderEntry {
  std::string_view algorithm;  // method::Method::algorithm
  Made (*make)(const config::Section& options, const tensor::Layout& layout, bool lone_worker,
               uint64_t seed);
  // The format of its sums; none, or null: it forms no sum of dense values that is sent.
  std::optional<WireType> (*sums_in)(const config::Section& options);
};

constexpr ReaderEntry kReaders[] = {
    {"allreduce", read_allreduce, sums_of_allreduce},
    {"distro", read_distro, nullptr},
    {"diloco", read_diloco, sums_of_diloco},
    {"sparseloco", read_sparseloco, nullptr},
};

const ReaderEntry* entry_of(const method::AlgorithmSpec& algorithm) {
  const auto* const found = std::ranges::find(kReaders, algorithm.name, &ReaderEntry::algorithm);
  return found == std::end(kReaders) ? nullptr : found;
}

}  // namespace

const WireCodec* sum_codec(const method::AlgorithmSpec& algorithm) {
  const ReaderEntry* const entry = entry_of(algorithm);
  if (entry == nullptr || entry->sums_in == nullptr) return nullptr;
  const std::optional<WireType> type = entry->sums_in(algorithm.options);
  return type ? &wire_codec(*type) : nullptr;
}

std::unique_ptr<PayloadReader> make_payload_reader(const method::AlgorithmSpec& algorithm,
                                                   const tensor::Layout& layout, bool lone_worker,
                                                   uint64_t seed) {
  const ReaderEntry* const entry = entry_of(algorithm);
  return entry == nullptr ? nullptr : entry->make(algorithm.options, layout, lone_worker, seed);
}

}  // namespace thinwire::codec
