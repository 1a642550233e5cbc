// What a run with noise ([privacy]) lets others learn of a member's text (docs/federated.md), by
// Rényi differential privacy of the sampled Gaussian mechanism (Mironov, Talwar, Zhang 2019, arXiv
// 1908.10530, section 3.3) and its conversion to (epsilon, delta) (Balle et al. 2020, arXiv
// 1905.09982, theorem 21), as Opacus computes them. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/config/recipe.h"

namespace thinwire::method {

// A repeated mechanism that says each time: with probability `sampling` a vector of norm at most 1,
// else nothing, and normal noise added to each of its values.
struct GaussianMechanism {
  double noise = 0;     // z, its standard deviation; 0: there is none
  double sampling = 1;  // q, in (0, 1]
};

// The Rényi divergence of order `order` > 1 between what is said once with and without the
// participant; infinite without noise.
double renyi_divergence(const GaussianMechanism& mechanism, double order);

// The smallest epsilon over the orders 1.1 to 10.9 in steps of 0.1 and 12 to 63 for which the
// mechanism is (epsilon, delta)-differentially private when it is used `times` times; 0 for none,
// infinite without noise. 0 < delta < 1.
double epsilon_of(const GaussianMechanism& mechanism, uint64_t times, double delta);

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
