#include <utility>

#include "thinwire/base/bytes.h"
#include "thinwire/method/operations.h"
#include "thinwire/train/collector.h"

namespace thinwire::train {

Result<double> shared_loss(transport::Communicator& communicator, PermitHold& permits, uint64_t run,
                           int64_t completed, const EvalPart& part, double timeout_s) {
  const transport::Key key{run, 0, static_cast<uint64_t>(completed), method::kLossesFragment};
  Bytes mine;
  ByteWriter writer(mine);
  writer.put(part.loss_sum);
  writer.put(part.tokens);
  communicator.start_all_gather(key, std::move(mine));
  permits.pause();
  const auto all = communicator.wait_all_gather(key, timeout_s);
  permits.resume();
  if (!all) return tl::unexpected(all.error());
  EvalPart sum;
  for (const transport::Delivery& one : *all) {
    ByteReader reader(*one.payload);
    sum.loss_sum += reader.get<double>();
    sum.tokens += reader.get<int64_t>();
    if (!reader.ok()) return fail(FailureKind::kCorruptPayload, "a loss is truncated");
  }
  return sum.loss_sum / static_cast<double>(sum.tokens);
}

}  // namespace thinwire::train
