// Clipping and noise ([privacy], docs/federated.md): bounds what a member's contribution to a sum
// tells of its text, to whoever sees it. With probability q it says C(x) + noise, else noise alone,
// all divided by q, so that the expected sum is that of the clipped contributions (McMahan et al.
// 2018, arXiv 1710.06963):
//   C(x) = x min(1, S / |x|)      noise ~ N(0, (z S)^2) for each value
// The sum is formed in fp64, rounded to a grid that depends on the options and the weight alone,
// and then to fp32. The noise is secrets.h's: it differs from run to run, and all replicas
// apply what the commit lists, as always.
#pragma once

#include <span>

#include "thinwire/base/threads.h"
#include "thinwire/config/sections.h"

namespace thinwire::sync {

// Does nothing for options without clip. `values` are `weight` > 0 times what the member
// contributes, and afterwards `weight` times what it says instead. Throws Error if they are not
// finite.
void make_private(const config::PrivacySection& options, float weight, std::span<float> values,
                  ThreadPool& threads);

}  // namespace thinwire::sync
