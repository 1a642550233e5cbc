// Compares what members send with the gradients of the rows that they are assigned
// (docs/audits.md).
//
// At the start of a round it takes a member at random and computes the gradients of that member's
// rows and of as many rows of the others, with the weights from which all of them start. When the
// round is closed it fetches what the member sent and reports
//
//   effect = cosine(sent, assigned - others) * sqrt(rows / compared)
//
// where `rows` are those that the member had and `compared` those whose gradients were computed:
// the expected effect is then about the same for members with different numbers of rows. Where what
// a member sends follows from its gradients alone (all-reduce), all of its rows are taken, and the
// error is reported, too: the distance of what was sent from what should have been, divided by the
// latter's length. Both are over those tensors of which something was sent.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/rng.h"
#include "thinwire/base/threads.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/rows.h"
#include "thinwire/member/follower.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/sync/algorithm.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/round_source.h"

namespace thinwire::member {

// Rows of a member, and of the others, whose gradients are computed at most, unless a contribution
// is recomputed.
inline constexpr size_t kMaxComparedRows = 256;

// All outlives the auditor.
struct AuditedRun {
  const config::Recipe& recipe;
  const tensor::Layout& layout;
  const membership::RecipePlan& plan;
  const data::Rows& rows;
  uint64_t id = 0;
};

// Throws UsageError for a run whose contributions cannot be compared with gradients, naming the
// field, its value and what would be valid.
void check_audited(const config::Recipe& recipe);

class Auditor final : public train::RoundObserver {
 public:
  // `seed`: of its choices, which members should not know. `message`: for the user; may be empty.
  Auditor(const AuditedRun& run, Follower& follower, uint64_t seed,
          std::function<void(const std::string& text)> message);

  bool wants(const Round& round) override;
  void observe(const Round& round, model::Model& model) override;

 private:
  // A contribution whose round may still be open.
  struct Audited {
    membership::Opening opening;
    int member = 0;
    float weight = 0;  // RoundMember::weight, in the round's first step
    size_t rows = 0;
    size_t compared = 0;
  };

  void settle();
  void compare(const Audited& audited, const Commit& commit, const Contribution& contribution);
  void take_gradients(const Round& round, model::Model& model, const std::vector<uint64_t>& rows,
                      tensor::Arena& gradients) const;
  std::vector<uint64_t> sample(std::vector<uint64_t> rows, size_t count);

  const AuditedRun run_;
  Follower& follower_;
  const std::function<void(const std::string& text)> message_;
  Rng random_;
  ThreadPool threads_;
  const std::unique_ptr<sync::ContributionReader> reader_;
  tensor::Arena assigned_;  // gradients of the member's rows
  tensor::Arena others_;    // and of other members'
  tensor::Arena sent_;
  std::optional<uint64_t> begun_;  // the round considered last
  std::optional<Audited> audited_;
  size_t audits_ = 0;
  std::optional<Stopwatch> since_message_;
};

}  // namespace thinwire::member
