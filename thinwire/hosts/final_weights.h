// The final weights of a complete run, on their way from a member to the coordinator's folder,
// where `thinwire export`, `generate` and `eval` then find them. The member stores the file of its
// last checkpoint in parts and asks the coordinator to fetch them. The coordinator takes them from
// whoever is the first to offer them, checks that their digest is the run's, and writes a
// checkpoint of its own. docs/hosts.md, "The result".
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/hosts/served_run.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

// What a member says of the final weights (RequestKind::kWeights), and the answer to it.
enum class WeightsAnswer : uint8_t {
  kNotWanted = 0,  // the coordinator has them, or is receiving another member's
  kWanted = 1,     // to a member that asks whether to offer its own
  kReceiving = 2,  // to a member that has offered them: ask again later
  kKept = 3,       // they are in the coordinator's folder
};

struct WeightsOffer {
  fs::path run_folder;                      // with the checkpoint
  uint64_t digest = 0;                      // of its weights
  double answer_s = kTimeoutSeconds;        // within which the coordinator answers
  const std::atomic<bool>* stop = nullptr;  // set from outside: give up; may be null
  events::MessageSink message;              // told why they did not arrive, for example
};
// The member's side, once its result was reported: offers its weights if they are wanted, and
// returns when the coordinator has them.
void offer_weights(transport::Courier& courier, RequestClient& requests, const WeightsOffer& offer);

// The coordinator's side. Its functions are called by one thread; another one receives.
class WeightsReception {
 public:
  // All must outlive it. `patience`: for what a member has stored. Told to `message`: that the
  // weights are kept, or why they are not.
  WeightsReception(transport::Courier& courier, const ServedRun& run, const Patience& patience,
                   events::MessageSink message);
  ~WeightsReception();
  WeightsReception(const WeightsReception&) = delete;
  WeightsReception& operator=(const WeightsReception&) = delete;

  // A member has reported its result, and will ask next whether its weights are wanted.
  void expect(double now);
  // The answer to a member's request. The body is empty, or names the list of parts that the member
  // has stored; `digest`: of the run's final weights, once it is known. kRefused with the reason if
  // what the member offered is not the run's weights, or cannot be kept.
  Result<WeightsAnswer> answer(const Request& request, std::optional<uint64_t> digest, double now);
  // Whether weights are being received, a member is about to ask or to offer them, or it has yet to
  // hear what became of them.
  bool busy(double now);
  bool kept() const { return kept_; }

 private:
  struct Offered {
    PublicKey member;
    transport::BlobId list;
    bool operator==(const Offered&) const = default;
  };

  bool wanted() const;
  double hearing_s() const;
  void take_end(double now);
  void receive(const Offered& offered, uint64_t digest);
  void keep(const fs::path& weights, uint64_t digest) const;
  void end_thread();

  transport::Courier& courier_;
  const ServedRun& run_;
  const Patience patience_;
  const events::MessageSink message_;
  std::optional<double> expected_;  // since when somebody's question is
  std::optional<PublicKey> asked_;  // who was told to offer its weights
  double asked_at_ = 0;             // last
  std::optional<Offered> offered_;  // what is being received, or was last
  std::optional<double> untold_;    // since when its member has not heard what became of it
  std::atomic<bool> stop_ = false;
  std::atomic<bool> ended_ = false;  // the thread has; then it no longer writes what follows
  std::string failure_;
  bool kept_ = false;
  std::thread thread_;
};

}  // namespace thinwire::hosts
