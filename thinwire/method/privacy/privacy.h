// What a run with noise ([privacy]) lets others learn of a member's text. docs/federated.md.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/config/recipe.h"
#include "thinwire/method/privacy/accountant.h"

namespace thinwire::method {

// What a member says in each contribution; its values are divided by privacy.clip.
GaussianMechanism mechanism_of(const config::PrivacySection& privacy);

// The sums to which a member contributes that takes part in all of the run, one for each fragment
// and exchange, after the first `completed` steps. For methods that privacy is possible with.
uint64_t planned_sums(const config::Recipe& recipe, int64_t completed = 0);

// Of a member that has contributed so often.
double epsilon_of(const config::PrivacySection& privacy, uint64_t sums);

// "after 12 contributions with noise: epsilon 3.21 at delta 1e-05". `sums`: contributions so far.
std::string describe_privacy(const config::PrivacySection& privacy, uint64_t sums);

// The same as a sentence about a run that is planned; empty without noise.
std::string planned_privacy(const config::Recipe& recipe);

}  // namespace thinwire::method
