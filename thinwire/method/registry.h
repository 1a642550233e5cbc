// The table of synchronisation methods. A new method adds a line in methods/methods.inc; one
// outside this tree calls add_method, and sync::add_algorithm for its record.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/method/method.h"

namespace thinwire::method {

std::span<const Method* const> all_methods();
// Adds a method, which must outlive all use of the table: before any recipe is read, while no other
// thread uses the table. Throws UsageError if there is a method of that name.
void add_method(const Method& method);

// Throws UsageError listing the known names.
const Method& find_method(std::string_view name);

// The rounds of the recipe's run with its method.
schedule::Rounds rounds_of(const config::Recipe& recipe);
// The steps over which workers' speeds are measured, and after which rows are divided anew
// (sync.shares): a round, or, where a step is one, several.
int64_t speeds_every(const config::Recipe& recipe);

// Prototypes of every method's, optimizer's, architecture's and adapter's section, for
// config::load_recipe and explain_recipe.
config::MethodSections method_sections();

// config::load_recipe with all these sections, choose_numbers (automatic.h), and check_choices;
// where the model comes from elsewhere (train.init), the code that reads it from there calls the
// latter.
config::Recipe load_recipe(const std::filesystem::path& path,
                           std::span<const std::string> overrides);

// Runs the checks that the chosen architecture, method, optimizer and adapter bring. Throws
// UsageError.
void check_choices(const config::Recipe& recipe);

// Explanations of recipe fields, including every method's, optimizer's and architecture's.

// config::explain_recipe with the sections and sentences of all methods, optimizers and
// architectures.
std::string explain_recipe(std::string_view what);

// Recipe fields that were set although other fields make them meaningless.

// One sentence for each: "distro.k = 64 is ignored: sync.method is allreduce". Fields at their
// defaults count as not set, and so do those that were derived from others.
std::vector<std::string> ignored_fields(const config::Recipe& recipe);

}  // namespace thinwire::method
