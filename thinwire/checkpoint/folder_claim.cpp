#include "thinwire/checkpoint/folder_claim.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <ranges>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/checkpoint/checkpoint.h"

namespace thinwire::checkpoint {
namespace {

constexpr const char* kClaimFile = ".lock";
constexpr size_t kNamed = 5;  // of the runs in a folder

std::string_view command_of(FolderOwner owner) {
  switch (owner) {
    case FolderOwner::kTrain:
      return "train";
    case FolderOwner::kServe:
      return "serve";
    case FolderOwner::kJoin:
      return "join";
    case FolderOwner::kRelay:
      return "relay";
  }
  return "";
}

std::string_view setting_of(FolderOwner owner) {
  return owner == FolderOwner::kRelay ? "--dir" : "[run] dir";
}

// Whether this command keeps something there. A member's folder is also a run's, with a log and
// checkpoints; a coordinator's has a recipe and in the end a checkpoint, but trains nothing.
bool keeps(FolderOwner owner, const fs::path& folder) {
  const bool served = fs::exists(folder / "server") || fs::exists(folder / "description.json");
  const bool joined = fs::exists(folder / "member");
  switch (owner) {
    case FolderOwner::kTrain:
      return !joined && (fs::exists(folder / "events.jsonl") ||
                         (!served && (fs::exists(folder / "checkpoints") ||
                                      fs::exists(folder / kRecipeFile))));
    case FolderOwner::kServe:
      return served;
    case FolderOwner::kJoin:
      return joined;
    case FolderOwner::kRelay:
      return !served && fs::exists(folder / "authority.key");
  }
  return false;
}

// Whether it holds more than what a command leaves that ended before it had begun.
bool holds_something(const fs::path& folder) {
  if (!fs::exists(folder)) return false;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const fs::path name = entry.path().filename();
    if (name != kClaimFile && name != "recipe.toml.partial") return true;
  }
  return false;
}

fs::path checked_claim(const fs::path& folder, FolderOwner owner) {
  check_owner(folder, owner);
  fs::create_directories(folder);
  return folder / kClaimFile;
}

// What to say if another process holds the folder.
std::string held_message(const fs::path& folder, FolderOwner owner) {
  if (!keeps(owner, folder)) {
    return fmt::format("another process is using {}; choose another folder with {}",
                       folder.string(), setting_of(owner));
  }
  return fmt::format(
      "another process is using {}: `thinwire {}` already works on this run here; leave it to that "
      "one or end it, or choose another folder with {}",
      folder.string(), command_of(owner), setting_of(owner));
}

constexpr std::array kOwners = {FolderOwner::kTrain, FolderOwner::kServe, FolderOwner::kJoin,
                                FolderOwner::kRelay};

}  // namespace

std::optional<FolderOwner> owner_of(const fs::path& folder) {
  for (const FolderOwner owner : kOwners) {
    if (keeps(owner, folder)) return owner;
  }
  return std::nullopt;
}

std::string runs_within(const fs::path& folder, std::initializer_list<FolderOwner> owners) {
  std::vector<std::pair<fs::file_time_type, std::string>> runs;
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, unreadable)) {
    const auto keeps_it = [&](FolderOwner owner) { return keeps(owner, entry.path()); };
    if (!entry.is_directory(unreadable) || std::ranges::none_of(owners, keeps_it)) continue;
    runs.emplace_back(entry.last_write_time(unreadable), entry.path().string());
  }
  if (runs.empty()) return "";
  std::ranges::sort(runs, std::greater());
  const size_t named = std::min(runs.size(), kNamed);
  const auto names = std::views::values(std::span(runs).first(named));
  return fmt::format("{}{}", fmt::join(names, ", "),
                     runs.size() > named ? fmt::format(" and {} more", runs.size() - named) : "");
}

void check_owner(const fs::path& folder, FolderOwner owner) {
  if (is_file(folder)) {
    throw UsageError(
        fmt::format("{} {} is a file, not a folder", setting_of(owner), folder.string()));
  }
  for (const FolderOwner other : kOwners) {
    if (other == owner || !keeps(other, folder)) continue;
    throw UsageError(
        fmt::format("{} {} holds what `thinwire {}` keeps there, so `thinwire {}` cannot use it; "
                    "choose another "
                    "folder",
                    setting_of(owner), folder.string(), command_of(other), command_of(owner)));
  }
  if (keeps(owner, folder) || !holds_something(folder)) return;
  throw UsageError(
      fmt::format("{} {} holds something that is not a run of `thinwire {}`; choose another folder",
                  setting_of(owner), folder.string(), command_of(owner)));
}

FolderClaim::FolderClaim(const fs::path& folder, FolderOwner owner, double patience_s,
                         Inherited inherited)
    : lock_(checked_claim(folder, owner), patience_s, held_message(folder, owner), inherited) {
  check_owner(folder, owner);  // another command may have had it until now
}

}  // namespace thinwire::checkpoint
