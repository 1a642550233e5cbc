#include "thinwire/methods/allreduce/gradient_average.h"

#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/simd.h"
#include "thinwire/codec/wire.h"

namespace thinwire::sync {
namespace {

THINWIRE_CLONES void scale(float* values, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

std::vector<GroupRange> ranges_of(const WorkerParts& worker) {
  const tensor::Layout& layout = worker.gradients.layout();
  if (worker.spec.hides_sums) return group_ranges(layout.specs());
  return {{.offset = 0, .count = layout.total()}};
}

}  // namespace

GradientAverage::GradientAverage(const WorkerParts& worker, MemberSum& sum, const WireCodec& codec)
    : worker_(worker), sum_(sum), codec_(codec), ranges_(ranges_of(worker)) {}

transport::Key GradientAverage::key(const Round& round, size_t range) const {
  return {round.run, round.epoch, round.number, static_cast<uint32_t>(range)};
}

std::span<float> GradientAverage::values(size_t range) {
  return worker_.gradients.all().subspan(static_cast<size_t>(ranges_[range].offset),
                                         static_cast<size_t>(ranges_[range].count));
}

void GradientAverage::start(const Round& round) {
  const size_t range = begun_++;
  const std::span<float> gradients = values(range);
  const float weight = round.own(worker_.communicator.rank()).weight;
  worker_.threads.for_ranges(static_cast<int64_t>(gradients.size()), 1024,
                             [&](int64_t begin, int64_t end, int) {
                               scale(gradients.data() + begin, end - begin, weight);
                             });
  const WireCodec& codec = round.followed ? codec::wire_codec(WireType::kF32) : codec_;
  sum_.start(key(round, range), gradients, codec, shares_of(round));
}

void GradientAverage::begin(const Round& round, int group) {
  if (!worker_.spec.hides_sums || !round.exchanges()) return;
  while (begun_ < ranges_.size() && ranges_[begun_].group == group) start(round);
}

Result<double> GradientAverage::finish(const Round& round) {
  if (!round.exchanges()) return 0.0;
  while (begun_ < ranges_.size()) start(round);
  begun_ = 0;
  const Stopwatch waiting;
  worker_.permits.pause();
  Result<void> done;
  for (size_t range = 0; done && range < ranges_.size(); ++range) {
    done = sum_.wait(key(round, range), values(range), worker_.spec.timeout_s);
  }
  worker_.permits.resume();
  if (!done) return tl::unexpected(done.error());
  return waiting.seconds();
}

}  // namespace thinwire::sync
