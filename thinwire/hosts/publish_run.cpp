#include "thinwire/hosts/publish_run.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/waiting.h"

namespace thinwire::hosts {
namespace {

void store(transport::Courier& courier, std::shared_ptr<const Bytes> blob, const char* what,
           const std::atomic<bool>* stop) {
  Waiting<void> stored;
  courier.put(std::move(blob), transport::Priority::kBulk, stored.setter());
  const Result<void> result = stored.wait(stop);
  if (!result) throw Error(fmt::format("cannot store {}: {}", what, result.error().message));
}

}  // namespace

bool publish_run(transport::Courier& courier, const Signer& coordinator, const ServedRun& run,
                 const std::atomic<bool>* stop) {
  store(courier, run.weights, "the initial weights", stop);
  const fs::path vocabulary = run.files.at(run.description.vocabulary.blob.name);
  const MappedFile text(vocabulary);
  store(courier, std::make_shared<const Bytes>(text.bytes().begin(), text.bytes().end()),
        "the vocabulary", stop);
  const auto description = std::make_shared<const Bytes>(encode_description(run.description));
  store(courier, description, "the run's description", stop);
  Waiting<uint64_t> appended;
  courier.append(kEntryStream, 0, encode_entry(transport::blob_id(*description), coordinator),
                 appended.setter());
  const Result<uint64_t> result = appended.wait(stop);
  if (result) return true;
  if (result.error().kind != FailureKind::kStaleRound) {
    throw Error("cannot publish the run's description: " + result.error().message);
  }
  check_same_run(run, fetch_description(courier, coordinator.key(), {}));
  return false;
}

}  // namespace thinwire::hosts
