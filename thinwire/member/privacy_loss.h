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

class PrivacyLoss {
 public:
  // Throws Error if the file is damaged: it would begin anew.
  PrivacyLoss(fs::path file, const config::PrivacySection& privacy);

  // One more contribution is about to leave the member; on disk when this returns. One that is sent
  // again after a restart counts again.
  void add();
  uint64_t contributions() const { return contributions_; }

 private:
  const fs::path file_;
  const config::PrivacySection privacy_;
  uint64_t contributions_ = 0;
};

}  // namespace thinwire::member
