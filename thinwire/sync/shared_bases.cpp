#include "thinwire/sync/shared_bases.h"

#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/codec/wire.h"
#include "thinwire/method/basis_sums.h"

namespace thinwire::sync {

SharedBases::SharedBases(const Worker& worker, MemberSum& sum, const WireCodec& gradients)
    : worker_(worker), sum_(sum), codec_(codec::wire_codec(method::basis_wire(gradients.type))) {}

optim::Average SharedBases::average(const Round& round, size_t tensor) {
  if (round.size() == 1) return {};
  return [this, &round, tensor, number = uint32_t{0}](std::span<float> values) mutable {
    sum(round, method::basis_fragment(tensor, number++), values);
  };
}

void SharedBases::sum(const Round& round, uint32_t fragment, std::span<float> values) {
  if (failure_) return;
  const float weight = round.own(worker_.communicator.rank()).weight;
  for (float& value : values) value *= weight;
  const transport::Key key{round.run, round.epoch, round.number, fragment};
  sum_.start(key, values, codec_, shares_of(round));
  const Stopwatch waiting;
  worker_.permits.pause();
  const auto done = sum_.wait(key, values, worker_.spec.timeout_s);
  worker_.permits.resume();
  waited_ += waiting.seconds();
  if (!done) failure_ = done.error();
}

Result<double> SharedBases::finish() {
  const double waited = std::exchange(waited_, 0);
  if (failure_) return tl::unexpected(*failure_);
  return waited;
}

}  // namespace thinwire::sync
