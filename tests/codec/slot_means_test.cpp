#include "thinwire/codec/slot_means.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <map>

#include "thinwire/base/rng.h"

namespace thinwire::codec {
namespace {

struct Sent {
  std::vector<uint16_t> slots;
  std::vector<float> values;
  bool operator==(const Sent&) const = default;
};

std::vector<Sent> random_members(int tile_slots, int members, uint64_t one_of) {
  std::vector<Sent> sent(static_cast<size_t>(members));
  for (size_t member = 0; member < sent.size(); ++member) {
    Rng rng(9, member);
    for (int slot = 0; slot < tile_slots; ++slot) {
      if (rng.below(one_of) != 0) continue;
      sent[member].slots.push_back(static_cast<uint16_t>(slot));
      sent[member].values.push_back(static_cast<float>(rng.normal()));
    }
  }
  return sent;
}

// One number after another.
Sent reference(const std::vector<Sent>& members, bool of_all) {
  std::map<uint16_t, std::pair<float, int>> sums;
  for (const Sent& sent : members) {
    for (size_t i = 0; i < sent.slots.size(); ++i) {
      auto& [sum, senders] = sums[sent.slots[i]];
      sum += sent.values[i];
      ++senders;
    }
  }
  Sent means;
  for (const auto& [slot, sum] : sums) {
    means.slots.push_back(slot);
    const auto divisor = static_cast<float>(of_all ? static_cast<int>(members.size()) : sum.second);
    means.values.push_back(sum.first * (1.0f / divisor));
  }
  return means;
}

Sent means_of(SlotMeans& means, const std::vector<Sent>& members, int tile_slots, bool of_all) {
  for (const Sent& sent : members) {
    means.add(sent.slots.data(), sent.values.data(), static_cast<uint32_t>(sent.slots.size()));
  }
  Sent out;
  out.slots.resize(static_cast<size_t>(tile_slots + SlotMeans::kPadding));
  out.values.resize(out.slots.size());
  const auto divisor = static_cast<uint32_t>(of_all ? members.size() : 0);
  const uint32_t count = means.take(tile_slots, divisor, out.slots.data(), out.values.data());
  out.slots.resize(count);
  out.values.resize(count);
  return out;
}

// The same as an array of all slots, in the opposite order.
std::vector<float> reversed(const Sent& means, int tile_slots) {
  std::vector<float> all(static_cast<size_t>(tile_slots));
  for (size_t i = 0; i < means.slots.size(); ++i) {
    all[static_cast<size_t>(tile_slots - 1 - means.slots[i])] = means.values[i];
  }
  return all;
}

std::vector<float> all_means_of(SlotMeans& means, const std::vector<Sent>& members, int tile_slots,
                                bool of_all) {
  std::vector<uint16_t> places(static_cast<size_t>(tile_slots));
  for (size_t slot = 0; slot < places.size(); ++slot) {
    places[slot] = static_cast<uint16_t>(places.size() - 1 - slot);
  }
  for (const Sent& sent : members) {
    means.add(sent.slots.data(), sent.values.data(), static_cast<uint32_t>(sent.slots.size()),
              places.data());
  }
  std::vector<float> all(static_cast<size_t>(tile_slots + SlotMeans::kPadding));
  means.take_all(tile_slots, static_cast<uint32_t>(of_all ? members.size() : 0), all.data());
  all.resize(static_cast<size_t>(tile_slots));
  return all;
}

TEST(SlotMeans, EveryInstructionSetGivesTheBitsOfPlainSums) {
  for (const int tile_slots : {1, 7, 64, 2752, 4096, 65536}) {
    for (const int members : {1, 2, 5, 32, 150}) {
      const auto sent = random_members(tile_slots, members, 3);
      for (const bool of_all : {false, true}) {
        const Sent expected = reference(sent, of_all);
        for (int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
          hwy::SetSupportedTargetsForTest(targets & -targets);
          hwy::GetChosenTarget().Update(hwy::SupportedTargets());
          SlotMeans means(tile_slots);
          for (const char* time : {"first", "second"}) {
            EXPECT_TRUE(means_of(means, sent, tile_slots, of_all) == expected)
                << hwy::TargetName(targets & -targets) << ", the " << time << " time, "
                << tile_slots << " slots of " << members;
            EXPECT_TRUE(all_means_of(means, sent, tile_slots, of_all) ==
                        reversed(expected, tile_slots))
                << hwy::TargetName(targets & -targets) << ", the " << time << " time, all of "
                << tile_slots << " slots of " << members;
          }
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(SlotMeans, NothingSentIsNothingFound) {
  SlotMeans means(100);
  EXPECT_EQ(means_of(means, {{}, {}}, 100, false), Sent());
}

TEST(SlotMeans, SumThatIsZeroIsFound) {
  SlotMeans means(8);
  const std::vector<Sent> sent = {{{3}, {1.0f}}, {{3}, {-1.0f}}};
  EXPECT_EQ(means_of(means, sent, 8, false), (Sent{{3}, {0.0f}}));
}

}  // namespace
}  // namespace thinwire::codec
