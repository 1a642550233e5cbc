// Random numbers that nobody can predict, for what is to be hidden: from OpenSSL's generator, which
// the system seeds. Never the same twice, so nothing that replicas must agree on may depend on
// them. Thread-safe. Throw Error if the system supplies no random numbers.
#pragma once

#include <span>

namespace thinwire {

// Uniform in [0, 1), 53 random bits.
double secret_uniform();

// Independent standard normal values (Box-Muller of 53 random bits each), none beyond 8.6. Their
// last bits are not those of a normal distribution: what hides something with them is to be rounded
// to a grid that does not depend on it.
void fill_secret_normals(std::span<double> values);

}  // namespace thinwire
