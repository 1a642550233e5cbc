// DisTrO on a device against the processor's own code, for the tests of both kinds of device.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/distro/distro_applier.h"
#include "thinwire/methods/distro/distro_encoder.h"
#include "thinwire/methods/distro/tile_work_sides.h"

namespace thinwire::sync {

struct DeviceCase {
  std::string name;
  method::DistroOptions options;
};

inline std::vector<DeviceCase> device_cases() {
  std::vector<DeviceCase> cases(9);
  cases[0].name = "signs";
  cases[1].name = "full_tiles";
  cases[1].options.chunk = 64;
  cases[2].name = "fp32_fixed";
  cases[2].options.values = ValueFormat::kF32;
  cases[2].options.fixed_k = true;
  cases[3].name = "int8_feedback";
  cases[3].options.values = ValueFormat::kInt8;
  cases[3].options.feedback = true;
  cases[4].name = "mean_of_all";
  cases[4].options.aggregate = method::SlotMean::kOfAll;
  cases[5].name = "subtract";
  cases[5].options.update = method::DistroUpdate::kSgd;
  cases[6].name = "untransformed";
  cases[6].options.transform = method::DistroTransform::kNone;
  cases[7].name = "optimizer";
  cases[7].options.update = method::DistroUpdate::kAdamW;
  cases[8].name = "dense";  // enough entries for the inverse from all coefficients
  for (DeviceCase& one : cases) {
    if (one.name != "full_tiles") one.options.chunk = 32;
    one.options.k = one.name == "dense" ? 128 : 24;
  }
  return cases;
}

// Two-dimensional, prime, one-dimensional and more; with tiles of zeros and of equal values.
class DeviceRun {
 public:
  static constexpr int kMembers = 3;

  DeviceRun(const DeviceCase& one, const tensor::DevicePlace& place)
      : options_(one.options), place_(place), device_(options_, tiles_, layout_, threads_, place) {
    for (int member = 0; member < kMembers; ++member) {
      encoders_.push_back(std::make_unique<DistroEncoder>(options_, tiles_, threads_));
      momenta_.push_back(arena());
    }
  }

  void expect_same_bits() {
    for (uint64_t round = 0; round < 4; ++round) {
      std::vector<transport::Delivery> deliveries;
      for (int member = 0; member < kMembers; ++member) {
        deliveries.push_back({member, std::make_shared<const Bytes>(encode(round, member))});
      }
      apply(round, deliveries);
    }
  }

 private:
  std::unique_ptr<tensor::Arena> arena() const {
    auto made = std::make_unique<tensor::Arena>(layout_);
    if (place_.kind != Device::kCpu) made->mirror_on(place_);
    return made;
  }

  Bytes encode(uint64_t round, int member) {
    tensor::Arena gradients(layout_);
    Rng rng(round, static_cast<uint64_t>(member));
    for (size_t tensor = 1; tensor < layout_.size(); ++tensor) {
      for (float& value : gradients.tensor(tensor)) {
        value = tensor == 2 ? 0.5f : static_cast<float>(rng.normal());
      }
    }
    codec::PayloadId id;
    id.sender = static_cast<uint32_t>(member);
    id.round = round;
    const Bytes payload = encoders_[size_t(member)]->encode(gradients, 0.125f, id);

    const auto copy = arena();
    std::ranges::copy(gradients.all(), copy->all().begin());
    tensor::Arena& momentum = *momenta_[size_t(member)];
    codec::SparseTiles taken(tiles_.shapes());
    device_.take(*copy, 0.125f, momentum, taken);
    const ValueFormat format = options_.values;
    for (size_t i = 0; i < layout_.size(); ++i) {
      codec::quantise(tiles_.shapes()[i], i, format, taken);
    }
    if (options_.feedback) device_.add_back(taken, momentum);
    Bytes same;
    codec::begin_payload(id, same);
    codec::encode_sparse(tiles_.shapes(), format, taken, same);
    codec::seal_payload(same);
    EXPECT_TRUE(same == payload) << "payload of member " << member << " in round " << round;
    EXPECT_THAT(momentum.all(), testing::ElementsAreArray(encoders_[size_t(member)]->momentum()));
    return payload;
  }

  void apply(uint64_t round_number, std::span<const transport::Delivery> deliveries) {
    Round round;
    round.number = round_number;
    round.learning_rate = 0.01f;
    std::vector<codec::SparseMessage> messages;
    for (const transport::Delivery& delivery : deliveries) {
      codec::SparseMessage& message = messages.emplace_back(tiles_.shapes(), options_.values);
      const auto body = std::span(*delivery.payload).subspan(kPayloadHeaderBytes);
      ASSERT_TRUE(message.open(body));
      ASSERT_TRUE(message.decode(0, message.segments().size()));
    }
    // An optimizer's input is in the gradients.
    const bool optimizer = options_.update == method::DistroUpdate::kAdamW;
    tensor::Arena gradients(layout_);
    DistroApplier applier(options_, {}, optim_, tiles_, layout_, threads_);
    ASSERT_TRUE(applier.apply(deliveries, round, params_, gradients));
    std::vector<float> shrink;
    for (const TensorSpec& spec : layout_.specs()) {
      const auto decay = static_cast<float>(optim_.weight_decay);
      shrink.push_back(spec.decays() ? 1.0f - 0.01f * decay : 1.0f);
    }
    const auto update = optimizer ? tensor::TileUpdate::kStore
                        : options_.update == method::DistroUpdate::kSgd
                            ? tensor::TileUpdate::kSubtract
                            : tensor::TileUpdate::kSign;
    device_.step(messages, {update, shrink, 0.01f}, *target_);
    EXPECT_THAT(target_->all(),
                testing::ElementsAreArray(optimizer ? gradients.all() : params_.all()))
        << "round " << round_number;
  }

  const tensor::Layout layout_{std::vector<TensorSpec>{{"zeros", {64, 32}, TensorRole::kMatrix, 0},
                                                       {"matrix", {64, 86}, TensorRole::kMatrix, 0},
                                                       {"equal", {32, 64}, TensorRole::kMatrix, 0},
                                                       {"tall", {97, 3}, TensorRole::kMatrix, 0},
                                                       {"cube", {2, 3, 8}, TensorRole::kMatrix, 0},
                                                       {"norm", {64}, TensorRole::kNorm, 0},
                                                       {"prime", {131}, TensorRole::kNorm}}};
  method::DistroOptions options_;
  method::OptimizerOptions optim_ = method::optimizer_options(method::load_recipe({}, {}));
  tensor::DevicePlace place_;
  ThreadPool threads_{2};
  codec::DistroTiles tiles_{options_, layout_};
  codec::DeviceTileWork device_;
  std::vector<std::unique_ptr<DistroEncoder>> encoders_;
  std::vector<std::unique_ptr<tensor::Arena>> momenta_;  // the device's, a member
  tensor::Arena params_{layout_};
  std::unique_ptr<tensor::Arena> target_ = arena();
};

}  // namespace thinwire::sync
