// The exchanges of a site's ranks: what rank 0 tells all, sums, bytes between two ranks, and
// tensors of which each rank has some.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/codec/wire.h"
#include "thinwire/train/site.h"

namespace thinwire::train {
namespace {

using transport::Key;

// Rank 0 may wait for others of its run for as long as it takes.
constexpr double kForeverSeconds = 1e8;
constexpr size_t kSummedAtOnce = kSentAtOnce / sizeof(float);

// The operations of a message; the last two are the first of its parts and of those of two ranks,
// which in a site of two are the same group as all.
enum Fragment : uint32_t { kMessage, kAnswers, kParts, kPairParts = 1U << 31 };

Key key(uint64_t message, uint32_t fragment) { return {0, 0, message, fragment}; }

template <typename T>
T checked(Result<T> result) {
  if (!result) throw Error("the ranks of this site: " + result.error().message);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// Bytes of an arena that a rank sends at once: ranges, one behind another.
struct Range {
  size_t begin = 0, size = 0;
};
using Batch = std::vector<Range>;

// The bytes of the tensors that `ranks` says are of this rank, in batches of kSentAtOnce.
std::vector<Batch> batches_of(const tensor::Arena& values, std::span<const int> ranks, int rank) {
  const tensor::Layout& layout = values.layout();
  const size_t width = values.format() == WeightFormat::kF32 ? sizeof(float) : sizeof(Bf16);
  std::vector<Batch> batches;
  size_t room = 0;
  for (size_t i = 0; i < layout.size(); ++i) {
    if (ranks[i] != rank) continue;
    size_t begin = static_cast<size_t>(layout.offset(i)) * width;
    const size_t end = begin + static_cast<size_t>(layout.specs()[i].count()) * width;
    while (begin < end) {
      if (room == 0) {
        batches.emplace_back();
        room = kSentAtOnce;
      }
      const size_t size = std::min(room, end - begin);
      batches.back().push_back({begin, size});
      begin += size;
      room -= size;
    }
  }
  return batches;
}

Bytes read_batch(const tensor::Arena& values, const Batch& batch) {
  Bytes bytes;
  ByteWriter writer(bytes);
  const std::span<const uint8_t> all = values.bytes();
  for (const Range& range : batch) writer.put_bytes(all.subspan(range.begin, range.size));
  return bytes;
}

void write_batch(const Bytes& bytes, const Batch& batch, tensor::Arena& values) {
  ByteReader reader(bytes);
  for (const Range& range : batch) values.set_bytes(range.begin, reader.get_bytes(range.size));
  if (!reader.at_end()) throw Error("a rank of this site sent damaged weights");
}

}  // namespace

SiteExchange::SiteExchange(transport::Communicator& ranks)
    : ranks_(ranks), pairs_(static_cast<size_t>(ranks.size())) {}

void SiteExchange::tell(Bytes message) {
  begin();
  ranks_.start_all_gather(key(message_, kMessage), std::move(message), {kWorker});
  checked(ranks_.wait_all_gather(key(message_, kMessage), kForeverSeconds));
}

std::shared_ptr<const Bytes> SiteExchange::hear() {
  begin();
  ranks_.start_all_gather(key(message_, kMessage), {}, {kWorker});
  const auto list = checked(ranks_.wait_all_gather(key(message_, kMessage), kForeverSeconds));
  return list.empty() ? nullptr : list.front().payload;
}

void SiteExchange::begin() {
  ++message_;
  parts_ = 0;
  for (Pair& pair : pairs_) pair.parts = 0;
}

std::vector<transport::Delivery> SiteExchange::answer(Bytes own,
                                                      const transport::Contributors& from) {
  ranks_.start_all_gather(key(message_, kAnswers), std::move(own), from);
  return checked(ranks_.wait_all_gather(key(message_, kAnswers), kForeverSeconds));
}

void SiteExchange::sum(std::span<float> values, const transport::Contributors& from) {
  sum_of(ranks_, values, from);
}

// Part by part, so that the transport holds few values at a time: one is summed while the next is
// on its way.
void SiteExchange::sum_of(transport::Communicator& ranks, std::span<float> values,
                          const transport::Contributors& from) {
  const auto part_of = [&](size_t at) {
    return values.subspan(at, std::min(kSummedAtOnce, values.size() - at));
  };
  const auto start = [&](size_t at) {
    const Key part = key(message_, kParts + parts_++);
    ranks.start_all_reduce(part, part_of(at), codec::wire_codec(WireType::kF32), from);
    return part;
  };
  if (values.empty()) return;
  Key part = start(0);
  for (size_t at = 0; at < values.size(); at += kSummedAtOnce) {
    const size_t next = at + kSummedAtOnce;
    const Key next_part = next < values.size() ? start(next) : Key();
    checked(ranks.wait_all_reduce(part, part_of(at), kForeverSeconds));
    part = next_part;
  }
}

void SiteExchange::sum_of_first(int count, std::span<float> values) {
  if (count == 1) return;
  auto& first = firsts_[count];
  if (first == nullptr) {
    std::vector<int> ranks(static_cast<size_t>(count));
    std::iota(ranks.begin(), ranks.end(), 0);
    first = ranks_.split(ranks);
  }
  sum_of(*first, values, {});
}

// The other takes part without bytes of its own, so that no more than one part is on its way.
std::shared_ptr<const Bytes> SiteExchange::pass(int other, Bytes own, bool sends) {
  const std::vector<int> both = {std::min(other, rank()), std::max(other, rank())};
  Pair& pair = pairs_[static_cast<size_t>(both.back())];
  if (pair.ranks == nullptr) pair.ranks = ranks_.split(both);
  const Key part = key(message_, kPairParts + pair.parts++);
  pair.ranks->start_all_gather(part, std::move(own));
  const auto list = checked(pair.ranks->wait_all_gather(part, kForeverSeconds));
  const int sender = sends ? pair.ranks->rank() : 1 - pair.ranks->rank();
  const auto sent = std::ranges::find(list, sender, &transport::Delivery::member);
  if (sent == list.end()) throw Error("a rank of this site has left");
  return sent->payload;
}

void SiteExchange::send(int to, std::span<const uint8_t> bytes) {
  for (size_t at = 0; at < bytes.size(); at += kSentAtOnce) {
    const auto part = bytes.subspan(at, std::min(kSentAtOnce, bytes.size() - at));
    pass(to, Bytes(part.begin(), part.end()), true);
  }
}

void SiteExchange::receive(int from, std::span<uint8_t> bytes) {
  for (size_t at = 0; at < bytes.size(); at += kSentAtOnce) {
    const auto part = bytes.subspan(at, std::min(kSentAtOnce, bytes.size() - at));
    const auto sent = pass(from, {}, false);
    if (sent->size() != part.size()) throw Error("a rank of this site sent damaged state");
    std::ranges::copy(*sent, part.begin());
  }
}

void SiteExchange::gather(std::span<const int> ranks, tensor::Arena& values) {
  std::vector<std::vector<Batch>> all;
  size_t rounds = 0;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    all.push_back(batches_of(values, ranks, rank));
    rounds = std::max(rounds, all.back().size());
  }
  for (size_t i = 0; i < rounds; ++i) {
    transport::Contributors from;
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      if (i < all[static_cast<size_t>(rank)].size()) from.push_back(rank);
    }
    const std::vector<Batch>& mine = all[static_cast<size_t>(rank())];
    const Key part = key(message_, kParts + parts_++);
    ranks_.start_all_gather(part, i < mine.size() ? read_batch(values, mine[i]) : Bytes(), from);
    for (const transport::Delivery& one : checked(ranks_.wait_all_gather(part, kForeverSeconds))) {
      if (one.member == rank()) continue;
      write_batch(*one.payload, all[static_cast<size_t>(one.member)][i], values);
    }
  }
}

}  // namespace thinwire::train
