// Which fields of a recipe belong to a machine and which to the run. A run's recipe is sent without
// the former, and a member that joins may set no others.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"

namespace thinwire::hosts {

// Whether a member that joins a run may set this field, "table.field": run.dir, data.dir,
// train.init (a copy of an adapter's base), train.threads, train.device, train.precision,
// train.offload, train.offload_dir, train.launcher, and the tables [log] and [links].
bool is_machine_local(std::string_view field);

// Stands in a run's recipe for the folder of the base, which each machine has elsewhere.
inline constexpr const char* kSharedBase = "base";
// Stands there for the folder with the data of tasks.
inline constexpr const char* kSharedTasks = "tasks";

// The resolved recipe of a run as its members receive it, with fields that belong to a machine at
// their defaults and no paths in it: [data] but for data.records and data.own is replaced by
// digests, train.init and adapter.init by snapshot 0. Where an adapter has a base, train.init is
// kSharedBase; where there are tasks, eval.data is kSharedTasks, and task files have only their
// names.
std::string shared_recipe_text(const config::Recipe& resolved);

// Throws UsageError for recipes that runs of many hosts do not support (member::check_hosted).
void check_servable(const config::Recipe& recipe);

// What differs between the shared parts of two resolved recipes: "optim.lr was 0.1, is 0.2".
std::vector<std::string> shared_differences(const config::Recipe& before,
                                            const config::Recipe& now);

// Throws UsageError for an override that sets a field which belongs to the run, naming it and what
// may be set, and for a value that this machine cannot have (train::resolve_machine).
void check_local_overrides(std::span<const std::string> overrides);

// The recipe with which a member trains: the received text, then the member's own overrides, which
// check_local_overrides has allowed, then the folders; `base`: of an adapter's base, empty if the
// run has none; nothing if it is not known whether it has one, and none is opened. Unless the
// overrides say otherwise, a member computes on all cores that it may use, and each rank of an MPI
// job on one: ranks of one machine share its cores. Throws UsageError for what it does not
// understand, if the text sets [data] or names a model, if it has a base and `base` is empty or the
// other way round, or if a value in it has control characters.
config::Recipe member_recipe(std::string_view text, std::span<const std::string> overrides,
                             const fs::path& run_dir, const fs::path& data_dir,
                             const std::optional<fs::path>& base = std::nullopt);

}  // namespace thinwire::hosts
