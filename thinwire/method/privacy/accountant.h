// How much can be learnt about one participant of a repeated Gaussian mechanism from all that it
// says: Rényi differential privacy of the sampled Gaussian mechanism (Mironov, Talwar, Zhang 2019,
// arXiv 1908.10530, section 3.3) and its conversion to (epsilon, delta) (Balle et al. 2020, arXiv
// 1905.09982, theorem 21), as Opacus computes them. Pure functions; any thread.
#pragma once

#include <cstdint>

namespace thinwire::method {

// What is said each time: with probability `sampling` a vector of norm at most 1, else nothing, and
// normal noise added to each of its values.
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

}  // namespace thinwire::method
