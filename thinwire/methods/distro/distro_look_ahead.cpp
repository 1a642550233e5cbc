#include "thinwire/methods/distro/distro_look_ahead.h"

#include <algorithm>
#include <numeric>

namespace thinwire::sync {

DistroLookAhead::DistroLookAhead(const method::DistroOptions& options,
                                 const codec::DistroTiles& tiles, const tensor::Layout& layout,
                                 ThreadPool& threads)
    : options_(options),
      tiles_(tiles),
      threads_(threads),
      saved_(layout),
      slots_(static_cast<size_t>(tiles.max_slots())) {
  std::iota(slots_.begin(), slots_.end(), uint16_t{0});
  for (int thread = 0; thread < threads.size(); ++thread) {
    Workspace& workspace = workspaces_.emplace_back();
    workspace.coefficients.resize(slots_.size());
    workspace.transform = codec::make_float_buffer(std::max<int64_t>(tiles.workspace_size(), 1));
  }
}

void DistroLookAhead::step(std::span<const float> momentum, float lr, tensor::Arena& params) {
  std::copy(params.all().begin(), params.all().end(), saved_.all().begin());
  stepped_ = true;
  tiles_.for_each(threads_, [&](size_t tensor, int64_t tile, int thread) {
    step_tile(momentum, lr, tensor, tile, workspaces_[static_cast<size_t>(thread)], params);
  });
}

void DistroLookAhead::undo(tensor::Arena& params) {
  if (!stepped_) return;
  std::copy(saved_.all().begin(), saved_.all().end(), params.all().begin());
  stepped_ = false;
}

void DistroLookAhead::step_tile(std::span<const float> momentum, float lr, size_t tensor,
                                int64_t tile, Workspace& workspace, tensor::Arena& params) {
  const codec::TileKind& kind = tiles_.kind(tensor);
  const codec::TilePlace place = tiles_.place(tensor, tile);
  const auto count = static_cast<size_t>(kind.slots());
  const auto first =
      static_cast<size_t>(params.layout().offset(tensor)) + static_cast<size_t>(tile) * count;
  for (int a = 0; a < kind.rows; ++a) {
    for (int b = 0; b < kind.columns; ++b) {
      workspace.coefficients[static_cast<size_t>(a * kind.columns + b)] =
          momentum[first + static_cast<size_t>(b * kind.rows + a)];
    }
  }
  const float* direction = workspace.coefficients.data();
  int64_t stride = kind.columns;
  if (options_.transform == method::DistroTransform::kDct) {
    direction =
        kind.dct.inverse({std::span(slots_).first(count), direction}, workspace.transform.get());
    stride = kind.dct.row_stride();
  }
  for (int y = 0; y < kind.rows; ++y) {
    float* row = params.all().data() + place.offset + y * place.stride;
    const float* x = direction + y * stride;
    for (int i = 0; i < kind.columns; ++i) row[i] -= x[i] > 0 ? lr : x[i] < 0 ? -lr : 0.0f;
  }
}

}  // namespace thinwire::sync
