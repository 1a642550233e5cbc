#include "thinwire/methods/distro/tile_work.h"

#include <optional>

#include "thinwire/methods/distro/tile_work_sides.h"

namespace thinwire::codec {
namespace {

// Delegates to the device where the arenas are.
class PlacedTileWork final : public TileWork {
 public:
  PlacedTileWork(const method::DistroOptions& options, const DistroTiles& tiles,
                 const tensor::Layout& layout, ThreadPool& threads)
      : options_(options), tiles_(tiles), layout_(layout), threads_(threads) {}

  void take(const tensor::Arena& gradients, float gain, tensor::Arena& momentum,
            SparseTiles& sent) override {
    taking_ = &of(gradients);
    taking_->take(gradients, gain, momentum, sent);
  }

  void add_back(const SparseTiles& sent, tensor::Arena& momentum) override {
    taking_->add_back(sent, momentum);
  }

  void step(std::span<const SparseMessage> messages, const TileStep& step,
            tensor::Arena& target) override {
    if (step.aggregation != nullptr) return vector().step(messages, step, target);
    of(target).step(messages, step, target);
  }

 private:
  VectorTileWork& vector() {
    if (!vector_) vector_.emplace(options_, tiles_, threads_);
    return *vector_;
  }

  TileWork& of(const tensor::Arena& arena) {
    if (arena.device() == nullptr) return vector();
    if (!device_) device_.emplace(options_, tiles_, layout_, threads_, *arena.device());
    return *device_;
  }

  const method::DistroOptions& options_;
  const DistroTiles& tiles_;
  const tensor::Layout& layout_;
  ThreadPool& threads_;
  std::optional<VectorTileWork> vector_;
  std::optional<DeviceTileWork> device_;
  TileWork* taking_ = nullptr;  // where the last take() was done
};

}  // namespace

std::unique_ptr<TileWork> make_tile_work(const method::DistroOptions& options,
                                         const DistroTiles& tiles, const tensor::Layout& layout,
                                         ThreadPool& threads) {
  return std::make_unique<PlacedTileWork>(options, tiles, layout, threads);
}

}  // namespace thinwire::codec
