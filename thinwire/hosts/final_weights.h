// The final weights of a complete run, on their way from a member to the coordinator's folder,
// where `thinwire export`, `generate` and `eval` then find them. The member stores the file of its
// last checkpoint in parts and asks the coordinator to fetch them. The coordinator takes them from
// the first member that reports its result, checks that their digest is the run's, and writes a
// checkpoint of its own. docs/hosts.md, "The result".
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/hosts/served_run.h"
#include "thinwire/membership/state.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

// What a coordinator answers to a member's result, and to what the member then says of its weights
// (RequestKind::kWeights).
enum class WeightsAnswer : uint8_t {
  kNotWanted = 0,  // it has them, is getting another member's, or shall have none
  kWanted = 1,     // the member is to store them, and to say at least every 10 s that it still does
  kReceiving = 2,  // they are being fetched: ask again
  kKept = 3,       // they are in the coordinator's folder
};

// The weights of a complete run, after so many steps.
struct WeightsOfRun {
  uint64_t steps = 0;
  uint64_t digest = 0;
  bool operator==(const WeightsOfRun&) const = default;
};
struct RunWeights {
  WeightsOfRun last;
  std::optional<WeightsOfRun> best;  // with checkpoint.best, if known; perhaps the last
};

// The weights of a finished run whose last ones have this digest; `keeps_best`: checkpoint.best.
RunWeights weights_of(const membership::State& finished, uint64_t digest, bool keeps_best);

struct WeightsOffer {
  fs::path run_folder;                      // with the checkpoint, and the link to the best one
  uint64_t digest = 0;                      // of its weights
  double answer_s = kTimeoutSeconds;        // within which the coordinator answers
  const std::atomic<bool>* stop = nullptr;  // set from outside: give up; may be null
  events::MessageSink message;              // told why they did not arrive, for example
};
// The member's side, once it was told that its weights are wanted: returns when the coordinator has
// them, or after a message that says why it has not.
void offer_weights(transport::Courier& courier, RequestClient& requests, const WeightsOffer& offer);

// The coordinator's side. Its functions are called by one thread; another one receives.
class WeightsReception {
 public:
  // All must outlive it. `patience`: for what a member has stored. Told to `message`: that the
  // weights are kept, or why they are not.
  WeightsReception(transport::Courier& courier, const ServedRun& run, WaitLimits patience,
                   events::MessageSink message);
  ~WeightsReception();
  WeightsReception(const WeightsReception&) = delete;
  WeightsReception& operator=(const WeightsReception&) = delete;

  // A member has reported its result: whether its weights are wanted. `now`: seconds of any clock.
  WeightsAnswer reported(const PublicKey& member, double now);
  // The answer to a member's request, whose body is empty while it stores its weights, and names
  // the list of their parts then; `weights`: the run's; nothing: not known yet. kRefused with the
  // reason if what the member offers is not the run's weights, or cannot be kept.
  Result<WeightsAnswer> answer(const Request& request, const std::optional<RunWeights>& weights,
                               double now);
  // Whether weights are being stored or received, or their member has yet to hear what became of
  // them.
  bool busy(double now);
  // Ends a reception that is going on.
  void end();
  // The digest of the weights that are in the folder; nothing: there are none.
  const std::optional<uint64_t>& kept() const { return kept_; }
  // Removes them.
  void discard();

 private:
  struct Offered {
    PublicKey member;
    transport::BlobId list;
    bool operator==(const Offered&) const = default;
  };

  double hearing_s() const { return 2 * patience_.answer_s; }
  void join();
  void begin(const Offered& offered, const RunWeights& weights);
  void receive(const Offered& offered, const RunWeights& weights) const;
  void check(const fs::path& weights, uint64_t digest) const;
  bool is_right(const fs::path& weights, uint64_t digest) const;
  void keep(const fs::path& weights, uint64_t steps) const;
  void tell_best(const RunWeights& weights, bool received) const;
  fs::path received_folder() const;
  fs::path checkpoints() const { return fs::path(run_.recipe.run.dir) / "checkpoints"; }

  transport::Courier& courier_;
  const ServedRun& run_;
  const WaitLimits patience_;
  const events::MessageSink message_;
  const uint64_t most_bytes_;  // of the file with the weights
  const bool possible_;
  std::optional<double> first_asked_;  // when a member was first told that weights are wanted
  std::optional<PublicKey> asked_;     // who was told so
  double heard_at_ = 0;                // from that member, last
  std::optional<Offered> offered_;     // what is being received, or was last
  RunWeights expected_;                // what it must be
  std::optional<double> untold_;       // since when its member has not heard what became of it
  std::optional<uint64_t> kept_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> ended_ = false;  // the thread has; then it no longer writes what follows
  std::string failure_;
  std::thread thread_;
};

}  // namespace thinwire::hosts
