#include "thinwire/checkpoint/staged_folder.h"

#include <fmt/format.h>

#include <set>
#include <system_error>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/mutex.h"

namespace thinwire::checkpoint {
namespace {

constexpr const char* kPartial = ".partial";

// The partial folders that this process is filling.
class ActiveFolders {
 public:
  void add(const fs::path& partial) {
    const Lock lock(mutex_);
    if (!active_.insert(partial).second) {
      throw Error(fmt::format("{} is already being written", partial.string()));
    }
  }
  void remove(const fs::path& partial) {
    const Lock lock(mutex_);
    active_.erase(partial);
  }
  bool contains(const fs::path& partial) {
    const Lock lock(mutex_);
    return active_.contains(partial);
  }

 private:
  Mutex mutex_;
  std::set<fs::path> active_ GUARDED_BY(mutex_);
};

ActiveFolders& active_folders() {
  static ActiveFolders folders;
  return folders;
}

// Absolute and without a trailing slash, so that suffixes can be added and equal folders have equal
// names.
fs::path full_path(const fs::path& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

StagedFolder::StagedFolder(const fs::path& target)
    : target_(full_path(target)), partial_(target_.string() + kPartial) {
  active_folders().add(partial_);
  try {
    fs::remove_all(partial_);
    fs::create_directories(partial_);
  } catch (const fs::filesystem_error& error) {
    active_folders().remove(partial_);
    throw Error(plain_message(error));
  }
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;  // what remains is removed by the next writer
  if (!published_) fs::remove_all(partial_, ignored);
  active_folders().remove(partial_);
}

void StagedFolder::publish() {
  if (!fs::exists(target_)) {
    publish_directory(partial_, target_);
    published_ = true;
    return;
  }
  const fs::path replaced = target_.string() + ".replaced" + kPartial;
  fs::remove_all(replaced);
  fs::rename(target_, replaced);
  publish_directory(partial_, target_);
  published_ = true;
  fs::remove_all(replaced);
}

void remove_abandoned(const fs::path& dir, std::string_view prefix) {
  if (!fs::is_directory(dir)) return;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(full_path(dir))) {
    const std::string name = entry.path().filename().string();
    const bool partial = name.starts_with(prefix) && name.ends_with(kPartial);
    if (partial && !active_folders().contains(entry.path())) found.push_back(entry.path());
  }
  for (const fs::path& folder : found) fs::remove_all(folder);
}

void remove_published(const fs::path& folder) {
  const fs::path removed = folder.string() + ".removed" + kPartial;
  fs::remove_all(removed);
  fs::rename(folder, removed);
  fs::remove_all(removed);
}

void require_absent(const fs::path& target) {
  if (!fs::exists(target) || (fs::is_directory(target) && fs::is_empty(target))) return;
  throw Error(
      fmt::format("cannot write {}: it exists already; choose another folder", target.string()));
}

}  // namespace thinwire::checkpoint
