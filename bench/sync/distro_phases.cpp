// The phases of DisTrO's step (distro_step.cpp) on one thread, each on a tile that stays in the
// cache, so that memory does not hide the time of the arithmetic. Arguments: rows and columns of
// the tile. The 51.7 M model has 9536 tiles of 64 x 64, 3072 of 43 x 64 and 1536 of 64 x 43.
#include <benchmark/benchmark.h>

#include <numeric>

#include "thinwire/base/rng.h"
#include "thinwire/codec/slot_means.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/codec/top_k.h"
#include "thinwire/method/tiles.h"
#include "thinwire/methods/distro/distro_tiles.h"
#include "thinwire/tensor/dct/dct.h"

namespace thinwire::sync {
namespace {

constexpr int kMembers = 32;

struct Tile {
  explicit Tile(const benchmark::State& state)
      : rows(static_cast<int>(state.range(0))),
        columns(static_cast<int>(state.range(1))),
        kept(method::kept_of_tile(int64_t{rows} * columns, {})),
        dct(rows, columns),
        values(static_cast<size_t>(rows * columns)),
        momentum(values.size()),
        workspace(codec::make_float_buffer(dct.workspace_size())) {
    Rng rng(1, 1);
    for (float& value : values) value = static_cast<float>(rng.normal());
  }

  void accumulate() {
    dct.accumulate(values.data(), columns, {0.999f, 1e-3f}, momentum.data(), workspace.get());
  }

  int rows;
  int columns;
  int kept;
  tensor::TileDct dct;
  std::vector<float> values;
  std::vector<float> momentum;
  codec::FloatBuffer workspace;
};

// What some members sent of many tiles, with random slots.
struct Sent {
  Sent(const Tile& tile, int members) {
    const int slots = tile.rows * tile.columns;
    for (int member = 0; member < members; ++member) {
      shapes.assign(1, {128, slots, tile.kept, 0, 0});
      codec::SparseTiles& sent = tiles.emplace_back(shapes);
      Rng rng(2, static_cast<uint64_t>(member));
      size_t at = 0;
      for (int64_t i = 0; i < shapes[0].tiles; ++i) {
        sent.counts[static_cast<size_t>(i)] = static_cast<uint32_t>(tile.kept);
        for (int slot = 0, missing = tile.kept; missing > 0; ++slot) {
          if (rng.below(static_cast<uint64_t>(slots - slot)) >= uint64_t(missing)) continue;
          sent.slots[at] = static_cast<uint16_t>(slot);
          sent.values[at++] = static_cast<float>(rng.normal());
          --missing;
        }
      }
      codec::quantise(shapes[0], 0, ValueFormat::kOneBit, sent);
    }
  }

  std::vector<codec::SparseShape> shapes;
  std::vector<codec::SparseTiles> tiles;
};

void bm_transform(benchmark::State& state) {
  Tile tile(state);
  for (auto _ : state) tile.accumulate();
}

void bm_select(benchmark::State& state) {
  Tile tile(state);
  tile.accumulate();
  codec::TopK top_k(tile.rows, tile.columns, tile.kept);
  std::vector<uint16_t> slots(static_cast<size_t>(tile.kept));
  std::vector<float> values(slots.size());
  uint32_t guess = 0;
  for (auto _ : state) {
    const int taken = top_k.take(tile.momentum.data(), slots.data(), values.data(), guess);
    for (int i = 0; i < taken; ++i) {
      tile.momentum[size_t(top_k.position(slots[size_t(i)]))] = values[size_t(i)];
    }
  }
}

// A tile of one payload.
void bm_pack(benchmark::State& state) {
  const Tile tile(state);
  const Sent sent(tile, 1);
  Bytes bytes;
  ThreadPool threads(1);
  for (auto _ : state) {
    bytes.clear();
    codec::encode_sparse(sent.shapes, ValueFormat::kOneBit, sent.tiles[0], threads, bytes);
  }
  state.SetItemsProcessed(state.iterations() * sent.shapes[0].tiles);
}

void bm_unpack(benchmark::State& state) {
  const Tile tile(state);
  Sent sent(tile, 1);
  sent.shapes[0].tiles = 1024;  // several segments
  sent.tiles.assign(1, codec::SparseTiles(sent.shapes));
  const Sent some(tile, 8);
  for (size_t i = 0; i < 8; ++i) {
    const auto step = static_cast<std::ptrdiff_t>(i);
    std::ranges::copy(some.tiles[i].counts, sent.tiles[0].counts.begin() + 128 * step);
    std::ranges::copy(some.tiles[i].slots, sent.tiles[0].slots.begin() + 128 * tile.kept * step);
  }
  Bytes bytes;
  codec::encode_sparse(sent.shapes, ValueFormat::kOneBit, sent.tiles[0], bytes);
  codec::SparseMessage message(sent.shapes, ValueFormat::kOneBit);
  for (auto _ : state) {
    if (!message.open(bytes) || !message.decode(0, message.segments().size())) {
      state.SkipWithError("refused");
      return;
    }
  }
  state.SetItemsProcessed(state.iterations() * sent.shapes[0].tiles);
}

// The mean of 32 payloads, as it is formed for all slots at once.
void bm_mean(benchmark::State& state) {
  const Tile tile(state);
  const Sent sent(tile, kMembers);
  const int slots = tile.rows * tile.columns;
  codec::SlotMeans means(slots);
  std::vector<uint16_t> places(static_cast<size_t>(slots));
  std::iota(places.begin(), places.end(), uint16_t{0});
  std::vector<float> values(static_cast<size_t>(slots + codec::SlotMeans::kPadding));
  for (auto _ : state) {
    for (const codec::SparseTiles& one : sent.tiles) {
      means.add(one.slots.data(), one.values.data(), one.counts[0], places.data());
    }
    means.take_all(slots, 0, values.data());
    benchmark::DoNotOptimize(values.data());
  }
}

// Inverse transform and update of a tile; the third argument is the number of slots that were sent,
// 0 for all of them at once.
void bm_step(benchmark::State& state) {
  Tile tile(state);
  std::vector<uint16_t> slots(static_cast<size_t>(state.range(2)));
  Rng rng(3, 1);
  for (uint16_t& slot : slots) {
    slot = static_cast<uint16_t>(rng.below(static_cast<uint64_t>(tile.rows * tile.columns)));
  }
  std::ranges::sort(slots);
  const std::vector<float> values(tile.values.size() + 15, 1.0f);
  const tensor::TileCoefficients sent = {slots, values.data(),
                                         slots.empty() ? values.data() : nullptr};
  for (auto _ : state) {
    tile.dct.step(sent, {0.999f, 1e-3f}, tile.momentum.data(), tile.columns, tile.workspace.get());
  }
}

void of_tiles(benchmark::internal::Benchmark* of) {
  of->ArgNames({"rows", "columns"})->Args({64, 64})->Args({43, 64})->Args({64, 43});
}

BENCHMARK(bm_transform)->Apply(of_tiles);
BENCHMARK(bm_select)->Apply(of_tiles);
BENCHMARK(bm_pack)->Apply(of_tiles);
BENCHMARK(bm_unpack)->Apply(of_tiles);
BENCHMARK(bm_mean)->Apply(of_tiles);
BENCHMARK(bm_step)
    ->ArgNames({"rows", "columns", "slots"})
    ->Args({64, 64, 32})
    ->Args({64, 64, 900})
    ->Args({64, 64, 0})
    ->Args({43, 64, 22})
    ->Args({43, 64, 610})
    ->Args({43, 64, 0})
    ->Args({64, 43, 22})
    ->Args({64, 43, 610})
    ->Args({64, 43, 0});

}  // namespace
}  // namespace thinwire::sync
