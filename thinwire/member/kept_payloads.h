// The payloads that a member has offered, kept so that it can store them again if the store loses
// them (docs/hosts.md, "When something fails"): until their rounds are no longer replayed, and up
// to a limit of bytes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"

namespace thinwire::member {

// Not thread-safe.
class KeptPayloads {
 public:
  // Beyond `most_bytes`, the payloads of the oldest rounds are dropped; those of the newest round
  // are kept.
  explicit KeptPayloads(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  void keep(uint64_t round, const Sha256& name, std::shared_ptr<const Bytes> payload);
  // Null if it is not kept.
  std::shared_ptr<const Bytes> find(const Sha256& name) const;
  void forget_before(uint64_t round);
  // The oldest round that has a kept payload.
  std::optional<uint64_t> oldest_round() const;

 private:
  void forget_oldest();

  const uint64_t most_bytes_;
  uint64_t bytes_ = 0;
  std::map<uint64_t, std::map<Sha256, std::shared_ptr<const Bytes>>> rounds_;
};

}  // namespace thinwire::member
