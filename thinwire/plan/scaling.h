// Scaling laws of local SGD (He, Zhuang, Wu, "Exploring Scaling Laws for Local SGD in Large
// Language Model Training", arXiv 2409.13198): how efficiently clusters train over a link, and the
// loss they reach. All are closed forms; every quantity is in the unit that its name says.
#pragma once

#include <span>
#include <vector>

namespace thinwire::plan {

// Clusters that train one model together: fast inside, joined by a slow link.
struct LinkedClusters {
  double clusters = 8;             // m
  double devices = 8;              // n, in each cluster
  double flops = 150e12;           // C_d, FLOP/s that a device actually achieves
  double bandwidth_bit_s = 0.8e9;  // between clusters; the paper's W is this in bytes, / 8
  double batch_tokens = 4e6;       // B, per step over all clusters
};

// Throws UsageError naming an invalid field: clusters < 1, or another value <= 0.
void check_clusters(const LinkedClusters& setting);

// Seconds of one step inside a cluster, 6 N (B/m) / (n C_d) (eq. 3.3), and of one exchange between
// clusters, 4 N (m-1) / (m W) (eq. 3.4: a ring all-reduce of 16-bit parameters).
double step_seconds(const LinkedClusters& setting, double parameters);
double exchange_seconds(const LinkedClusters& setting, double parameters);

// K, the share of time spent computing with one exchange every `local_steps` (s) steps (eq. 3.5):
// 1 / (1 + 2 (m-1) n C_d / (3 B s W)). The model's size cancels. In (0, 1].
double efficiency(const LinkedClusters& setting, double local_steps);

// The local steps at which efficiency() is `target`, in (0, 1); 0 for one cluster.
double local_steps_for(const LinkedClusters& setting, double target);

// L(N, D) = E + (Nc / N)^alpha + (Dc / D)^beta, nats per token, for N parameters and D tokens of
// training (Hoffmann et al. 2022, arXiv 2203.15556, eq. 2, whose A is Nc^alpha and B is Dc^beta).
// Without E and Dc it is L(N) (arXiv 2409.13198, eq. 3.1, 3.2), N without embeddings.
struct LossLaw {
  double scale = 0;            // Nc
  double exponent = 0;         // alpha
  double floor = 0;            // E: nats that no size and no tokens take away
  double tokens_scale = 0;     // Dc; 0: a law of runs of one length, and tokens change nothing
  double tokens_exponent = 0;  // beta
  double loss(double parameters, double tokens) const;
};

// The law of the models of Hoffmann et al., 44 M to 16 B parameters with embeddings, each on tokens
// seen once, with the constants that Besiroglu et al. 2024 (arXiv 2404.10102) fitted to their runs.
LossLaw chinchilla();

struct LossLaws {
  LossLaw all_reduce = {6.06e14, 0.069};
  LossLaw local_sgd = {3.15e14, 0.072};
  double loss_per_local_step = 1.4e-4;  // alpha_s, from lambda ~ 2e-3 (section 3.4.2)
};

// L(s, N) is fitted below this many local steps (eq. 3.6).
inline constexpr double kMaxLocalSteps = 1024;

// L(s, N) = alpha_s s + L(N) of local SGD (eq. 3.6), or own runs' alpha_s s + L(N, D).
double local_loss(const LossLaws& laws, double parameters, double tokens, double local_steps);

// lambda = 2 alpha_s n C_d (m-1) / (3 W B), and L(K, N) = lambda K / (1-K) + L(N) (eq. 3.7),
// for an efficiency below 1.
double loss_per_efficiency(const LossLaws& laws, const LinkedClusters& setting);
double loss_at_efficiency(const LossLaws& laws, const LinkedClusters& setting, double parameters,
                          double tokens, double efficiency);

// What can be spent: up to `clusters.clusters` clusters for this long. A model is trained on a
// fixed number of tokens per parameter (20: Hoffmann et al. 2022, arXiv 2203.15556).
struct Budget {
  double seconds = 0;
  double tokens_per_parameter = 20;
};

struct BudgetChoice {
  int clusters = 1;
  double local_steps = 1;  // a power of two
  double parameters = 0;   // N
  double tokens = 0;
  double efficiency = 1;
  double loss = 0;
};

// For each number of clusters, the local steps that give the lowest loss with the largest model
// that the budget pays for: K m n C_d seconds = 6 N tokens. A single cluster needs no exchange and
// follows the all-reduce law. Throws UsageError for a budget <= 0.
std::vector<BudgetChoice> spend(const LossLaws& laws, const LinkedClusters& most,
                                const Budget& budget);

// The choice with the lowest loss; `choices` is not empty.
const BudgetChoice& best_choice(std::span<const BudgetChoice> choices);

// One curve of the paper's figure 4.
struct Scenario {
  int number = 1;  // of section 3.4
  LinkedClusters setting;
};

// All curves of the three scenarios.
std::vector<Scenario> paper_scenarios();

}  // namespace thinwire::plan
