#include "thinwire/sync/contribution_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/codec/distro_tiles.h"
#include "thinwire/codec/tile_work.h"
#include "thinwire/codec/wire.h"
#include "thinwire/method/allreduce.h"
#include "thinwire/method/diloco.h"
#include "thinwire/method/distro.h"
#include "thinwire/method/sparseloco.h"
#include "thinwire/sync/diloco_fragments.h"
#include "thinwire/sync/sparseloco_codec.h"

namespace thinwire::sync {
namespace {

Result<void> decode(const WireCodec& codec, std::span<const uint8_t> payload,
                    std::span<float> values) {
  const uint64_t bytes = wire_bytes(codec.type, values.size());
  if (payload.size() == bytes) return codec.decode(payload, values);
  return fail(FailureKind::kCorruptPayload,
              fmt::format("it has {} bytes where {} are expected", payload.size(), bytes));
}

class GradientReader final : public ContributionReader {
 public:
  GradientReader(const method::AllReduceOptions& options, const tensor::Layout&, ThreadPool&)
      : codec_(codec::wire_codec(options.wire)) {}

  Result<void> read(std::span<const uint8_t> payload, codec::PayloadId, uint32_t,
                    tensor::Arena& out) override {
    return decode(codec_, payload, out.all());
  }
  bool stateless() const override { return true; }
  void recompute(float weight, tensor::Arena& gradients) override {
    const std::span<float> values = gradients.all();
    for (float& value : values) value *= weight;
    Bytes coded(wire_bytes(codec_.type, values.size()));
    codec_.encode(values, coded);
    const auto done = codec_.decode(coded, values);
    if (!done) throw Error("a gradient cannot be encoded: " + done.error().message);
  }

 private:
  const WireCodec& codec_;
};

class PseudoGradientReader final : public ContributionReader {
 public:
  PseudoGradientReader(const method::DilocoOptions& options, const tensor::Layout& layout,
                       ThreadPool&)
      : codec_(codec::wire_codec(options.wire)),
        fragments_(diloco_fragments(layout, options.fragments())) {}

  Result<void> read(std::span<const uint8_t> payload, codec::PayloadId, uint32_t fragment,
                    tensor::Arena& out) override {
    if (fragment >= fragments_.size()) {
      return fail(FailureKind::kCorruptPayload, "the run has no such fragment");
    }
    const DilocoFragment& place = fragments_[fragment];
    buffer_.resize(static_cast<size_t>(place.count));
    auto done = decode(codec_, payload, buffer_);
    if (!done) return done;
    out.clear();
    for (const FragmentPiece& piece : place.pieces) {
      std::copy_n(buffer_.begin() + (piece.buffer - place.begin), piece.count,
                  out.all().begin() + piece.arena);
    }
    return done;
  }
  std::vector<tensor::GradientRange> covered(uint32_t fragment) const override {
    std::vector<tensor::GradientRange> ranges;
    for (const FragmentPiece& piece : fragments_.at(fragment).pieces) {
      ranges.push_back({.offset = piece.arena, .count = piece.count});
    }
    return ranges;
  }

 private:
  const WireCodec& codec_;
  const std::vector<DilocoFragment> fragments_;
  std::vector<float> buffer_;
};

class MomentumReader final : public ContributionReader {
 public:
  MomentumReader(const method::DistroOptions& options, const tensor::Layout& layout,
                 ThreadPool& threads)
      : tiles_(options, layout),
        message_(tiles_.shapes(), options.values),
        shrinks_(layout.size(), 1.0f),
        work_(codec::make_tile_work(options, tiles_, layout, threads)) {}

  Result<void> read(std::span<const uint8_t> payload, codec::PayloadId id, uint32_t,
                    tensor::Arena& out) override {
    id.method = codec::PayloadMethod::kDistro;
    const auto body = codec::open_payload(payload, id);
    if (!body) return tl::unexpected(body.error());
    auto done = message_.open(*body);
    if (done) done = message_.decode(0, message_.segments().size());
    if (done) work_->step({&message_, 1}, {tensor::TileUpdate::kStore, shrinks_, 0}, out);
    return done;
  }

 private:
  const codec::DistroTiles tiles_;
  codec::SparseMessage message_;
  const std::vector<float> shrinks_;
  const std::unique_ptr<codec::TileWork> work_;
};

class SparseReader final : public ContributionReader {
 public:
  SparseReader(const method::SparseLocoOptions& options, const tensor::Layout& layout,
               ThreadPool& threads)
      : codec_(options, {}, layout, threads) {}

  Result<void> read(std::span<const uint8_t> payload, codec::PayloadId id, uint32_t,
                    tensor::Arena& out) override {
    constexpr float kWhole[] = {1};
    id.method = codec::PayloadMethod::kSparseLoco;
    const transport::Delivery one{static_cast<int>(id.sender),
                                  std::make_shared<const Bytes>(payload.begin(), payload.end())};
    return codec_.sum({&one, 1}, kWhole, id, out.all());
  }

 private:
  SparseLocoCodec codec_;
};

using Made = std::unique_ptr<ContributionReader>;

template <typename Options, typename Reader>
Made make(const config::Section& options, const tensor::Layout& layout, ThreadPool& threads) {
  return std::make_unique<Reader>(dynamic_cast<const Options&>(options), layout, threads);
}

struct ReaderEntry {
  std::string_view algorithm;  // method::Method::algorithm
  Made (*make)(const config::Section& options, const tensor::Layout& layout, ThreadPool& threads);
};

constexpr ReaderEntry kReaders[] = {
    {"allreduce", make<method::AllReduceOptions, GradientReader>},
    {"distro", make<method::DistroOptions, MomentumReader>},
    {"diloco", make<method::DilocoOptions, PseudoGradientReader>},
    {"sparseloco", make<method::SparseLocoOptions, SparseReader>},
};

}  // namespace

std::unique_ptr<ContributionReader> make_contribution_reader(const method::SyncSpec& spec,
                                                             const tensor::Layout& layout,
                                                             ThreadPool& threads) {
  const auto* const found = std::ranges::find(kReaders, spec.method.name, &ReaderEntry::algorithm);
  if (found == std::end(kReaders)) return nullptr;
  return found->make(spec.method.options, layout, threads);
}

}  // namespace thinwire::sync
