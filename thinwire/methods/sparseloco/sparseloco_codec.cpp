#include "thinwire/methods/sparseloco/sparseloco_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "thinwire/base/simd.h"

namespace thinwire::sync {
namespace {

constexpr auto kFormat = ValueFormat::kTwoBit;

THINWIRE_CLONES void decay_and_add(float* __restrict error, const float* __restrict shared,
                                   const float* __restrict params, int64_t count, float decay) {
  for (int64_t i = 0; i < count; ++i) error[i] = decay * error[i] + (shared[i] - params[i]);
}

}  // namespace

SparseLocoCodec::SparseLocoCodec(const method::SparseLocoOptions& options,
                                 const AggregateOptions& aggregate, const tensor::Layout& layout,
                                 ThreadPool& threads)
    : decay_(static_cast<float>(options.decay)),
      of_senders_(options.aggregate == method::SlotMean::kOfSenders),
      aggregate_(aggregate),
      layout_(layout),
      threads_(threads),
      chunks_(method::plan_chunks(layout.specs(), options)),
      shapes_(codec::shapes_of(chunks_.plan)),
      segments_(codec::cut_segments(shapes_)),
      error_(layout),
      sent_(shapes_),
      guesses_(sent_.counts.size()),
      exact_(sent_.values.size()) {
  for (size_t tensor = 0; tensor < layout.size(); ++tensor) {
    int64_t at = layout.offset(tensor);
    for (size_t part = chunks_.parts[tensor]; part < chunks_.parts[tensor + 1]; ++part) {
      places_.push_back(at);
      at += shapes_[part].tiles * shapes_[part].slots;
    }
  }
  for (const codec::SparseShape& shape : shapes_) {
    const auto found = std::ranges::find_if(kinds_, [&](const Kind& kind) {
      return kind.slots == shape.slots && kind.kept == shape.kept;
    });
    kinds_of_.push_back(static_cast<size_t>(found - kinds_.begin()));
    if (found == kinds_.end()) kinds_.push_back({shape.slots, shape.kept});
  }
  for (int thread = 0; thread < threads.size(); ++thread) {
    std::vector<codec::TopK>& own = top_k_.emplace_back();
    for (const Kind& kind : kinds_) own.emplace_back(1, kind.slots, kind.kept);
  }
}

Bytes SparseLocoCodec::encode(const tensor::Arena& shared, const tensor::Arena& params,
                              const codec::PayloadId& id) {
  gather(shared, params);
  threads_.for_ranges(
      static_cast<int64_t>(segments_.size()), 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t i = begin; i < end; ++i) {
          take_segment(segments_[static_cast<size_t>(i)], top_k_[static_cast<size_t>(thread)]);
        }
      });
  threads_.for_each(static_cast<int64_t>(layout_.size()),
                    [&](int64_t tensor) { quantise_tensor(static_cast<size_t>(tensor)); });
  Bytes payload;
  codec::begin_payload(id, payload);
  codec::encode_sparse(shapes_, kFormat, sent_, threads_, payload);
  codec::seal_payload(payload);
  return payload;
}

void SparseLocoCodec::gather(const tensor::Arena& shared, const tensor::Arena& params) {
  const float* from = shared.all().data();
  const float* own = params.all().data();
  float* error = error_.all().data();
  threads_.for_ranges(layout_.total(), 1024, [&](int64_t begin, int64_t end, int) {
    decay_and_add(error + begin, from + begin, own + begin, end - begin, decay_);
  });
}

void SparseLocoCodec::take_segment(const codec::SparseSegment& segment,
                                   std::vector<codec::TopK>& top_k) {
  const size_t part = segment.tensor;
  const codec::SparseShape& shape = shapes_[part];
  float* error = error_.all().data();
  for (int64_t tile = segment.first_tile; tile < segment.first_tile + segment.tiles; ++tile) {
    const auto first = static_cast<size_t>(shape.first_kept + tile * shape.kept);
    const auto index = static_cast<size_t>(shape.first_tile + tile);
    const int taken =
        top_k[kinds_of_[part]].take(error + place(part, tile), sent_.slots.data() + first,
                                    sent_.values.data() + first, guesses_[index]);
    sent_.counts[index] = static_cast<uint32_t>(taken);
  }
}

// Adds back what quantisation keeps from the receivers.
void SparseLocoCodec::quantise_tensor(size_t tensor) {
  const size_t first_part = chunks_.parts[tensor];
  const auto parts = std::span(shapes_).subspan(first_part, chunks_.parts[tensor + 1] - first_part);
  const auto begin = parts.front().first_kept;
  const auto end = parts.back().first_kept + parts.back().tiles * parts.back().kept;
  std::copy(sent_.values.begin() + begin, sent_.values.begin() + end, exact_.begin() + begin);
  codec::quantise_two_bits(parts, first_part, sent_);
  float* error = error_.all().data();
  for (size_t i = 0; i < parts.size(); ++i) {
    for (int64_t tile = 0; tile < parts[i].tiles; ++tile) {
      const auto first = static_cast<size_t>(parts[i].first_kept + tile * parts[i].kept);
      const size_t count = sent_.counts[static_cast<size_t>(parts[i].first_tile + tile)];
      float* chunk = error + place(first_part + i, tile);
      for (size_t at = first; at < first + count; ++at) {
        chunk[sent_.slots[at]] = exact_[at] - sent_.values[at];
      }
    }
  }
}

Result<void> SparseLocoCodec::sum(std::span<const transport::Delivery> deliveries,
                                  std::span<const float> weights, const codec::PayloadId& id,
                                  std::span<float> out) {
  const auto failures = decode(deliveries, id);
  std::vector<float> counted;
  for (size_t i = 0; i < deliveries.size(); ++i) {
    if (failures[i]) continue;
    if (counted.size() != i) std::swap(received_[counted.size()], received_[i]);
    counted.push_back(weights[i]);
  }
  for (size_t i = 0; i < deliveries.size(); ++i) {
    if (!failures[i] || (aggregate_.robust() && !counted.empty())) continue;
    return fail(failures[i]->kind,
                fmt::format("payload of member {} in round {}: {}", deliveries[i].member, id.round,
                            failures[i]->message));
  }
  std::ranges::fill(out, 0.0f);
  if (aggregate_.robust()) {
    if (!counted.empty()) aggregate(counted, out);
    return {};
  }
  threads_.for_each(static_cast<int64_t>(segments_.size()), [&](int64_t segment) {
    add_segment(static_cast<size_t>(segment), weights, out);
    if (of_senders_) divide_by_senders(static_cast<size_t>(segment), weights, out);
  });
  return {};
}

std::vector<std::optional<Failure>> SparseLocoCodec::decode(
    std::span<const transport::Delivery> deliveries, const codec::PayloadId& id) {
  while (received_.size() < deliveries.size()) received_.emplace_back(shapes_, kFormat);
  std::vector<std::optional<Failure>> failures(deliveries.size());
  threads_.for_each(static_cast<int64_t>(deliveries.size()), [&](int64_t i) {
    const auto index = static_cast<size_t>(i);
    codec::PayloadId expected = id;
    expected.sender = static_cast<uint32_t>(deliveries[index].member);
    const bool late = deliveries[index].late_share > 0;
    const auto done = decode(*deliveries[index].payload, expected, late, received_[index]);
    if (!done) failures[index] = done.error();
  });
  return failures;
}

void SparseLocoCodec::aggregate(std::span<const float> weights, std::span<float> out) {
  const auto messages = std::span(received_).first(weights.size());
  std::vector<codec::Magnitude> magnitudes(messages.size());
  threads_.for_each(static_cast<int64_t>(messages.size()), [&](int64_t i) {
    const auto index = static_cast<size_t>(i);
    magnitudes[index] = codec::magnitude_of(messages[index], shapes_);
  });
  const codec::Aggregation aggregation(aggregate_, weights, magnitudes);
  std::vector<codec::SparseRows> rows(static_cast<size_t>(threads_.size()));
  threads_.for_ranges(
      static_cast<int64_t>(segments_.size()), 1, [&](int64_t begin, int64_t end, int thread) {
        codec::SparseRows& own = rows[static_cast<size_t>(thread)];
        for (auto index = static_cast<size_t>(begin); std::cmp_less(index, end); ++index) {
          const codec::SparseSegment& part = segments_[index];
          const codec::SparseShape& shape = shapes_[part.tensor];
          own.begin(messages.size());
          for (int64_t tile = part.first_tile; tile < part.first_tile + part.tiles; ++tile) {
            aggregation.combine({own.expand(messages, index, shape, tile),
                                 static_cast<size_t>(shape.slots), of_senders_},
                                out.data() + place(part.tensor, tile));
          }
        }
      });
}

Result<void> SparseLocoCodec::decode(std::span<const uint8_t> payload, const codec::PayloadId& id,
                                     bool late, codec::SparseMessage& message) const {
  const auto body = codec::open_payload(payload, id, late);
  if (!body) return tl::unexpected(body.error());
  const auto done = message.open(*body);
  return done ? message.decode(0, segments_.size()) : done;
}

void SparseLocoCodec::expand(const codec::SparseMessage& mean,
                             std::span<const codec::SparseShape> shapes,
                             std::span<float> out) const {
  std::ranges::fill(out, 0.0f);
  const std::span<const codec::SparseSegment> segments = mean.segments();
  threads_.for_each(static_cast<int64_t>(segments.size()), [&](int64_t index) {
    const codec::SparseSegment& part = segments[static_cast<size_t>(index)];
    const codec::SparseShape& shape = shapes[part.tensor];
    std::vector<float> values(static_cast<size_t>(shape.kept));
    int64_t read = 0;
    for (int64_t tile = part.first_tile; tile < part.first_tile + part.tiles; ++tile) {
      const uint32_t count = mean.count(shape.first_tile + tile);
      const uint16_t* const slots = mean.slots(shape.first_kept + tile * shape.kept);
      mean.read_values(static_cast<size_t>(index), read, count, values.data());
      read += count;
      float* const chunk = out.data() + place(part.tensor, tile);
      for (uint32_t entry = 0; entry < count; ++entry) chunk[slots[entry]] = values[entry];
    }
  });
}

Result<void> SparseLocoCodec::add_back(const Bytes& payload, const codec::PayloadId& id,
                                       const Reduce& reduce) {
  const auto body = codec::open_payload(payload, id);
  if (!body) return tl::unexpected(body.error());
  auto done = codec::decode_sparse(shapes_, kFormat, *body, sent_);
  if (!done || (reduce && !reduce(sent_))) return done;
  for (size_t part = 0; part < shapes_.size(); ++part) {
    const codec::SparseShape& shape = shapes_[part];
    for (int64_t tile = 0; tile < shape.tiles; ++tile) {
      const auto first = static_cast<size_t>(shape.first_kept + tile * shape.kept);
      const size_t count = sent_.counts[static_cast<size_t>(shape.first_tile + tile)];
      float* const chunk = error_.all().data() + place(part, tile);
      for (size_t at = first; at < first + count; ++at) chunk[sent_.slots[at]] += sent_.values[at];
    }
  }
  return done;
}

void SparseLocoCodec::add_segment(size_t segment, std::span<const float> weights,
                                  std::span<float> sum) const {
  const codec::SparseSegment& part = segments_[segment];
  const codec::SparseShape& shape = shapes_[part.tensor];
  std::vector<float> values(static_cast<size_t>(shape.kept));
  for (size_t i = 0; i < weights.size(); ++i) {
    const codec::SparseMessage& message = received_[i];
    int64_t read = 0;
    for (int64_t tile = part.first_tile; tile < part.first_tile + part.tiles; ++tile) {
      const uint32_t count = message.count(shape.first_tile + tile);
      const uint16_t* slots = message.slots(shape.first_kept + tile * shape.kept);
      message.read_values(segment, read, count, values.data());
      read += count;
      float* chunk = sum.data() + place(part.tensor, tile);
      for (uint32_t entry = 0; entry < count; ++entry) {
        chunk[slots[entry]] += weights[i] * values[entry];
      }
    }
  }
}

void SparseLocoCodec::divide_by_senders(size_t segment, std::span<const float> weights,
                                        std::span<float> sum) const {
  const codec::SparseSegment& part = segments_[segment];
  const codec::SparseShape& shape = shapes_[part.tensor];
  std::vector<float> senders(static_cast<size_t>(shape.slots));
  for (int64_t tile = part.first_tile; tile < part.first_tile + part.tiles; ++tile) {
    std::ranges::fill(senders, 0.0f);
    for (size_t i = 0; i < weights.size(); ++i) {
      const uint16_t* const slots = received_[i].slots(shape.first_kept + tile * shape.kept);
      const uint32_t count = received_[i].count(shape.first_tile + tile);
      for (uint32_t entry = 0; entry < count; ++entry) senders[slots[entry]] += weights[i];
    }
    float* const chunk = sum.data() + place(part.tensor, tile);
    for (size_t slot = 0; slot < senders.size(); ++slot) {
      if (senders[slot] > 0) chunk[slot] /= senders[slot];
    }
  }
}

}  // namespace thinwire::sync
