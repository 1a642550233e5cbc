#include "thinwire/plan/distro_report.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/error.h"

namespace thinwire::plan {
namespace {

constexpr double kGradientBytes = 2;  // bf16
constexpr double kBitsPerByte = 8;
constexpr double kSmallestModel = 1.2e9;
constexpr double kLargestModel = 12e9;
constexpr int kCurvePoints = 19;

void check(const DistroCase& setting) {
  if (setting.members < 2) {
    throw UsageError(fmt::format("members must be >= 2, got {}", setting.members));
  }
  for (const auto& [name, value] :
       {std::pair("parameters", setting.parameters), std::pair("payload", setting.payload_bytes),
        std::pair("up", setting.link.up_bit_s), std::pair("down", setting.link.down_bit_s)}) {
    if (!(value > 0)) throw UsageError(fmt::format("{} must be > 0, got {}", name, value));
  }
  if (setting.topology != "aggregator" && setting.topology != "peers") {
    throw UsageError(
        fmt::format("topology must be one of aggregator, peers, got \"{}\"", setting.topology));
  }
}

}  // namespace

method::ModelSpec report_model() {
  method::ModelSpec model;
  model.vocab = 32'000;
  model.hidden = 2048;
  model.layers = 16;
  model.heads = 8;
  auto& llama = model.options<method::LlamaOptions>();
  llama.kv_heads = 8;
  llama.intermediate = 8192;
  return model;
}

DistroCost distro_cost(const DistroCase& setting) {
  check(setting);
  const double others = setting.members - 1;
  const double gradient = kGradientBytes * setting.parameters;
  DistroCost cost;
  cost.all_reduce_bytes = others * gradient;
  cost.ring_bytes = 2 * others / setting.members * gradient;
  cost.received_bytes = others * setting.payload_bytes;
  cost.sent_bytes = setting.topology == "peers" ? cost.received_bytes : setting.payload_bytes;
  cost.ratio = cost.all_reduce_bytes / cost.received_bytes;
  cost.ratio_ring = cost.ring_bytes / cost.received_bytes;
  cost.ratio_ring_sent = cost.ring_bytes / cost.sent_bytes;
  cost.seconds_up = links::transfer_seconds(setting.link, cost.sent_bytes, 0, 0);
  cost.seconds_down = links::transfer_seconds(setting.link, 0, cost.received_bytes, 0);
  return cost;
}

DistroPayload distro_payload(const method::DistroOptions& options,
                             std::span<const TensorSpec> tensors) {
  const method::TilePlan plan = method::plan_tiles(tensors, options.tiles());
  const int bits = value_bits(options.values);
  return {static_cast<double>(method::distro_payload_bound(plan, bits)),
          method::distro_entropy_bits(plan, bits) / kBitsPerByte};
}

std::vector<ConstantBytesPoint> constant_bytes_curve(const DistroCase& setting) {
  std::vector<ConstantBytesPoint> curve;
  for (int i = 0; i < kCurvePoints; ++i) {
    DistroCase larger = setting;
    larger.parameters =
        kSmallestModel * std::pow(kLargestModel / kSmallestModel, i / (kCurvePoints - 1.0));
    const DistroCost cost = distro_cost(larger);
    curve.push_back({larger.parameters, cost.ratio, cost.ratio_ring});
  }
  return curve;
}

}  // namespace thinwire::plan
