// Who writes a folder below runs/: one command, and one process of it at a time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "thinwire/base/file.h"

namespace thinwire::checkpoint {

// The commands that keep a folder of their own.
enum class FolderOwner : uint8_t { kTrain, kServe, kJoin, kRelay };

// The command that keeps something in the folder, if one does.
std::optional<FolderOwner> owner_of(const fs::path& folder);

// The runs of these commands in a folder, the newest first, for a message: "runs/c, runs/a, runs/d,
// runs/f, runs/b and 9 more"; empty if there are none.
std::string runs_within(const fs::path& folder, std::initializer_list<FolderOwner> owners);

// Throws UsageError if the folder holds what another command keeps there, or something else.
void check_owner(const fs::path& folder, FolderOwner owner);

// Holds a folder until it is destroyed.
class FolderClaim {
 public:
  // Creates the folder unless it is there. Throws UsageError as check_owner does, before anything
  // is written; Error if another process holds the folder for longer than `patience_s` seconds.
  FolderClaim(const fs::path& folder, FolderOwner owner, double patience_s = 0,
              Inherited inherited = Inherited::kNo);

 private:
  const FolderLock lock_;
};

}  // namespace thinwire::checkpoint
