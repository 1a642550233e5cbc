// A folder that appears complete or not at all: it is filled under the name <target>.partial and
// then renamed to <target>.
#pragma once

#include "thinwire/base/file.h"

namespace thinwire::checkpoint {

class StagedFolder {
 public:
  // Creates an empty partial folder, replacing what an interrupted writer left there. Throws Error
  // when this process is already filling the same one.
  explicit StagedFolder(const fs::path& target);
  // Removes the partial folder unless it was published.
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  const fs::path& target() const { return target_; }
  const fs::path& partial() const { return partial_; }

  // Makes the target appear, replacing an existing one.
  void publish();

 private:
  fs::path target_;
  fs::path partial_;
  bool published_ = false;
};

// Removes the partial folders in `dir` whose names begin with `prefix`, except those that this
// process is filling.
void remove_abandoned(const fs::path& dir, std::string_view prefix);

// Removes a published folder after renaming it to a partial name, so that an interrupted removal
// leaves nothing that looks complete.
void remove_published(const fs::path& folder);

// Throws Error if anything but an empty folder exists at `target`.
void require_absent(const fs::path& target);

}  // namespace thinwire::checkpoint
