// How often a member of a run with noise ([privacy]) has contributed, and what others can have
// learnt of its text by that: kept in its run folder, over all of its processes.
#pragma once

#include <cstdint>

#include "thinwire/base/file.h"
#include "thinwire/config/sections.h"

namespace thinwire::member {

// In a member's run folder: {"contributions": …, "noise": …, "sampling": …, "delta": …,
// "epsilon": …}.
inline constexpr const char* kPrivacyFile = "privacy.json";

// What the file says; 0 if there is none. Throws Error if it is damaged: counting would begin anew.
uint64_t contributions_in(const fs::path& file);

struct PrivacyLimits {
  double most_epsilon = 0;   // 0: any
  bool has_trained = false;  // the folder has checkpoints, so the count must be there, too
};

class PrivacyLoss {
 public:
  // Writes a count of 0 where none has begun. Throws Error if it is damaged or has been lost.
  PrivacyLoss(fs::path file, const config::PrivacySection& privacy, const PrivacyLimits& limits);

  // One more contribution is about to leave the member; on disk when this returns. One that is sent
  // again after a restart counts again. Throws Error, and counts nothing, if it would tell more
  // than the limit.
  void add();
  uint64_t contributions() const { return contributions_; }

 private:
  const fs::path file_;
  const config::PrivacySection privacy_;
  const double most_epsilon_;
  void write() const;

  uint64_t contributions_ = 0;
};

}  // namespace thinwire::member
