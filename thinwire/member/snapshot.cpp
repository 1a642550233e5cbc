#include "thinwire/member/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "thinwire/member/member.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/combinations.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/initial_model.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/transport/courier/blob.h"

namespace thinwire::member {
namespace {

constexpr std::string_view kMagic = "TWSN";
constexpr uint16_t kVersion = 1;

auto corrupt(std::string_view what) {
  return fail(FailureKind::kCorruptPayload, fmt::format("not a snapshot: {}", what));
}

void put_values(ByteWriter& writer, std::span<const float> values) {
  writer.put(static_cast<uint64_t>(values.size()));
  writer.put_bytes(as_bytes(values));
}

// False for values that are truncated or not finite.
bool get_values(ByteReader& reader, std::vector<float>& values) {
  const auto count = reader.get<uint64_t>();
  if (!reader.ok() || count > reader.remaining() / sizeof(float)) return false;
  const auto raw = reader.get_bytes(count * sizeof(float));
  values.resize(count);
  if (count > 0) std::memcpy(values.data(), raw.data(), raw.size());
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

Bytes encode_snapshot(uint64_t run, int64_t completed, std::span<const float> weights,
                      std::span<const NamedValues> consensus) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_bytes(as_bytes(kMagic));
  writer.put(kVersion);
  writer.put(run);
  writer.put(completed);
  put_values(writer, weights);
  writer.put(static_cast<uint32_t>(consensus.size()));
  for (const NamedValues& part : consensus) {
    writer.put_string(part.name);
    put_values(writer, part.values);
  }
  return bytes;
}

Result<RunSnapshot> decode_snapshot(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes);
  const auto magic = reader.get_bytes(kMagic.size());
  if (!std::ranges::equal(magic, as_bytes(kMagic))) return corrupt("it does not begin with TWSN");
  const auto version = reader.get<uint16_t>();
  if (version != kVersion) {
    return corrupt(fmt::format("it is of version {}, this program's is {}", version, kVersion));
  }
  RunSnapshot snapshot;
  snapshot.run = reader.get<uint64_t>();
  snapshot.completed = reader.get<int64_t>();
  if (snapshot.completed < 0) return corrupt("its steps are below 0");
  if (!get_values(reader, snapshot.weights))
    return corrupt("its weights are truncated or not finite");
  const auto parts = reader.get<uint32_t>();
  for (uint32_t part = 0; reader.ok() && part < parts; ++part) {
    const std::string name = reader.get_string();
    std::vector<float> values;
    if (!get_values(reader, values)) return corrupt("its state is truncated or not finite");
    if (!snapshot.consensus.emplace(name, std::move(values)).second) {
      return corrupt("it has a part twice");
    }
  }
  if (!reader.at_end()) return corrupt(reader.ok() ? "bytes follow its end" : "it is truncated");
  return snapshot;
}

InitialState make_initial_state(const config::Recipe& recipe, const data::Vocabulary& vocabulary,
                                const Sha256& recipe_hash, uint64_t run,
                                std::vector<PublicKey> coordinators) {
  check_hosted(recipe);
  method::require_initial_model(recipe);
  const tensor::Layout layout(method::tensors_of(recipe));
  tensor::Arena weights(layout);
  train::set_initial_parameters(recipe, &vocabulary, weights, events::print_message);
  auto bytes =
      std::make_shared<const Bytes>(encode_snapshot(run, 0, std::as_const(weights).all(), {}));
  const transport::BlobId id = transport::blob_id(*bytes);
  std::ranges::sort(coordinators);
  return {{run, recipe_hash, id.name, id.bytes, std::move(coordinators)}, std::move(bytes)};
}

}  // namespace thinwire::member
