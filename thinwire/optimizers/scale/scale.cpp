#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/base/simd.h"
#include "thinwire/optim/channels.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optimizers/adamw/adamw.h"
#include "thinwire/optimizers/scale/scale_spec.h"

namespace thinwire::optim {
namespace {

constexpr float kLeast = 1e-8f;  // root mean square

THINWIRE_CLONES void average(float* __restrict mean, const float* __restrict gradient,
                             int64_t count, float beta, float keep) {
  for (int64_t i = 0; i < count; ++i) mean[i] = beta * mean[i] + keep * gradient[i];
}

// p = p shrink - rates * direction, with a rate for each element.
THINWIRE_CLONES void step_along_each(float* __restrict p, const float* __restrict direction,
                                     const float* __restrict rates, int64_t count, float shrink) {
  for (int64_t i = 0; i < count; ++i) p[i] = p[i] * shrink - rates[i] * direction[i];
}

class Scale final : public Optimizer {
 public:
  Scale(const method::OptimizerOptions& options, const tensor::Layout& layout)
      : Optimizer(options, layout), scale_(options.section<method::ScaleOptions>("scale")) {}

  void update(const TensorUpdate& tensor, const OptimizerStep& step, ThreadPool& threads) override {
    const TensorSpec& known = spec(tensor.tensor);
    if (!known.is_hidden_matrix() && !known.is_vocabulary_sized()) {
      adamw_update(options(), known.decays(), tensor, piece(tensor, 0), piece(tensor, 1), step,
                   threads);
      return;
    }
    if (method::is_last_layer(options(), known)) return step_last_layer(tensor, step, threads);
    const bool embeds = known.role == TensorRole::kEmbedding;
    step_matrix(tensor, {0, known.count()}, tensor.gradient.data(), step.gradient_scale,
                embeds ? Channel::kColumn : Channel::kRow, step, threads);
  }

 private:
  // In bands, so that a mean that is not kept in fp32 is widened a band at a time.
  void step_last_layer(const TensorUpdate& tensor, const OptimizerStep& step, ThreadPool& threads) {
    const StateValues mean = piece(tensor.tensor, 0);
    const int64_t columns = spec(tensor.tensor).shape.back();
    const auto beta = static_cast<float>(scale_.momentum);
    const float keep = static_cast<float>(1 - scale_.momentum) * step.gradient_scale;
    for_bands(mean.size() / columns, [&](int64_t first, int64_t rows) {
      const Elements band = {first * columns, rows * columns};
      band_.resize(static_cast<size_t>(band.count));
      for_pieces(band.count, threads, [&](int64_t from, int64_t count) {
        const int64_t at = band.begin + from;
        float* const values = mean.read(at, count, band_.data() + from);
        average(values, tensor.gradient.data() + at, count, beta, keep);
        mean.keep(at, count, values, step.number);
      });
      const float* const values = mean.is_exact() ? mean.data() + band.begin : band_.data();
      step_matrix(tensor, band, values, 1, Channel::kRow, step, threads);
    });
  }

  // A step of whole rows of the tensor along `direction`, which has as many elements.
  void step_matrix(const TensorUpdate& tensor, const Elements& elements, const float* direction,
                   float factor, Channel channel, const OptimizerStep& step, ThreadPool& threads) {
    const int64_t columns = spec(tensor.tensor).shape.back();
    const int64_t rows = elements.count / columns;
    const bool by_row = channel == Channel::kRow;
    std::vector<float> rates(static_cast<size_t>(by_row ? rows : columns));
    channel_norms({direction, static_cast<size_t>(elements.count)}, columns, channel, rates,
                  threads);
    const float root = std::sqrt(static_cast<float>(by_row ? columns : rows));
    for (float& rate : rates) {
      rate = step.learning_rate * factor / std::max(factor * rate / root, kLeast);
    }
    const auto shrink = static_cast<float>(1 - step.learning_rate * options().weight_decay);
    update_pieces(
        options(), step, tensor, elements, threads, [&](float* params, int64_t at, int64_t count) {
          move(params, direction, rates, columns, by_row, at - elements.begin, count, shrink);
        });
  }

  // Elements [at, at + count), row by row; p points to the first of them.
  static void move(float* p, const float* direction, const std::vector<float>& rates,
                   int64_t columns, bool by_row, int64_t at, int64_t count, float shrink) {
    const int64_t end = at + count;
    while (at < end) {
      const int64_t row = at / columns;
      const int64_t part = std::min(end, (row + 1) * columns) - at;
      if (by_row) {
        step_along(p, direction + at, part, shrink, rates[static_cast<size_t>(row)]);
      } else {
        step_along_each(p, direction + at, rates.data() + at % columns, part, shrink);
      }
      p += part;
      at += part;
    }
  }

  method::ScaleOptions scale_;
  std::vector<float> band_;
};

std::unique_ptr<Optimizer> make_scale(const method::OptimizerOptions& options,
                                      const tensor::Layout& layout) {
  return std::make_unique<Scale>(options, layout);
}

}  // namespace

// SCALE's arithmetic (Glentis et al. 2025, arXiv 2506.16659, algorithm 1).

// For every matrix, with weights [outputs, inputs]:
//   g = beta m + (1 - beta) g, m = g      in the last layer
//   p = p (1 - lr wd) - lr g_i / max(rms(g_i), 1e-8)      for each output i
// The embedding, if it is not the last layer, is [inputs, outputs], so there i is a column.
const OptimizerEntry kScale = {"scale", make_scale};

}  // namespace thinwire::optim
