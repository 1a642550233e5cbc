#include "tests/launch/forgeries.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/base/wire.h"
#include "thinwire/codec/payload.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/codec/wire.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/method.h"
#include "thinwire/method/tiles.h"
#include "thinwire/methods/allreduce/allreduce_spec.h"
#include "thinwire/methods/distro/distro_spec.h"

namespace thinwire::launch {
namespace {

constexpr float kTimes = 100;

void falsify(Forgery kind, std::span<float> values) {
  if (kind == Forgery::kFlipped) {
    for (float& value : values) value *= -kTimes;
  } else if (kind == Forgery::kNotFinite) {
    std::ranges::fill(values, std::numeric_limits<float>::quiet_NaN());
  } else if (kind == Forgery::kDisguised) {
    float& changed = *std::ranges::find_if(values, [](float value) { return value != 0; });
    changed = -changed;
  }
}

Bytes random_bytes(size_t count, Rng& rng) {
  Bytes bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.bits());
  return bytes;
}

// Contributions to dense sums.
class DenseForger {
 public:
  explicit DenseForger(WireType wire) : codec_(codec::wire_codec(wire)) {}

  Bytes falsified(Forgery kind, const Forged& from) const {
    Bytes payload = kind == Forgery::kDisguised ? *from.other : *from.own;
    std::vector<float> values(payload.size() / wire_bytes(codec_.type, 1));
    if (!codec_.decode(payload, values)) throw Error("a member's payload does not decode");
    falsify(kind, values);
    codec_.encode(values, payload);
    return payload;
  }
  static Bytes copied(const Forged& from) { return *from.other; }

 private:
  const WireCodec& codec_;
};

// DisTrO's messages.
class SparseForger {
 public:
  SparseForger(const config::Recipe& recipe, const membership::RecipePlan& plan, uint64_t run)
      : format_(recipe.section<method::DistroOptions>("distro").values),
        shapes_(codec::shapes_of(method::plan_tiles(
            method::tensors_of(recipe), recipe.section<method::DistroOptions>("distro").tiles()))),
        plan_(plan),
        run_(run) {}

  Bytes falsified(Forgery kind, const Forged& from) const {
    codec::SparseTiles tiles(shapes_);
    const auto body = kind == Forgery::kDisguised
                          ? opened(*from.other, from.offer, from.other_member)
                          : opened(*from.own, from.offer, from.offer.member);
    if (!codec::decode_sparse(shapes_, format_, body, tiles)) {
      throw Error("a member's payload does not decode");
    }
    falsify(kind, tiles.values);
    if (kind == Forgery::kNotFinite) {
      falsify(kind, tiles.scales);
    } else {
      for (size_t i = 0; i < shapes_.size(); ++i) {
        codec::quantise(shapes_[i], i, format_, tiles);
      }
    }
    Bytes payload;
    codec::begin_payload(id(from.offer, from.offer.member), payload);
    codec::encode_sparse(shapes_, format_, tiles, payload);
    codec::seal_payload(payload);
    return payload;
  }

  Bytes copied(const Forged& from) const {
    const auto body = opened(*from.other, from.offer, from.other_member);
    Bytes payload;
    codec::begin_payload(id(from.offer, from.offer.member), payload);
    payload.insert(payload.end(), body.begin(), body.end());
    codec::seal_payload(payload);
    return payload;
  }

 private:
  codec::PayloadId id(const membership::Offer& offer, int member) const {
    codec::PayloadId id;
    id.run = run_;
    id.epoch = offer.epoch;
    id.sender = static_cast<uint32_t>(member);
    id.round = plan_.operation_of(offer.round, offer.fragment).value().round;
    return id;
  }
  std::span<const uint8_t> opened(const Bytes& payload, const membership::Offer& offer,
                                  int member) const {
    const auto body = codec::open_payload(payload, id(offer, member));
    if (!body) throw Error(body.error().message);
    return *body;
  }

  const ValueFormat format_;
  const std::vector<codec::SparseShape> shapes_;
  const membership::RecipePlan& plan_;
  const uint64_t run_;
};

template <typename Forger>
ForgingCourier::Forge forge_with(Forgery kind, std::shared_ptr<const Forger> forger) {
  return
      [kind, forger = std::move(forger), rng = std::make_shared<Rng>(16, 1)](const Forged& from) {
        if (kind == Forgery::kRandom) return random_bytes(from.own->size(), *rng);
        if (kind == Forgery::kCopied) return forger->copied(from);
        return forger->falsified(kind, from);
      };
}

}  // namespace

ForgingCourier::Forge make_forgery(Forgery kind, const config::Recipe& recipe,
                                   const membership::RecipePlan& plan, uint64_t run) {
  if (recipe.sync.method == method::kDistro.name) {
    return forge_with(kind, std::make_shared<const SparseForger>(recipe, plan, run));
  }
  const WireType wire = recipe.section<method::AllReduceOptions>("allreduce").wire;
  return forge_with(kind, std::make_shared<const DenseForger>(wire));
}

}  // namespace thinwire::launch
