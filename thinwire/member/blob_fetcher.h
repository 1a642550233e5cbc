// Blobs that a member needs: fetching starts as soon as the need is known, and the member waits
// when it uses them. Network failures are not reported: a blob that did not arrive is requested
// again. Holders that did not answer are remembered, so that the time-out is waited for once and
// not for every blob.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::member {

// Thread-safe.
class BlobFetcher {
 public:
  // Repeats a failed request: at once after a time-out, otherwise after `retry_s` seconds. Every
  // second request goes to `substitute`, who may have stored what others hold; empty: nobody. It is
  // the first one for a blob of a holder that did not answer when it was last asked.
  BlobFetcher(transport::Courier& courier, double retry_s, std::string substitute = "");
  ~BlobFetcher();
  BlobFetcher(const BlobFetcher&) = delete;
  BlobFetcher& operator=(const BlobFetcher&) = delete;

  // Adds a blob that this member made itself.
  void keep(const transport::BlobId& id, std::shared_ptr<const Bytes> blob);
  // Requests it unless it is already here or in flight.
  void start(const transport::BlobId& id, const std::vector<std::string>& holders,
             transport::Priority priority);
  // Like start(), and waits until it is here; kAborted within a quarter of a second after
  // gives_up() becomes true.
  Result<std::shared_ptr<const Bytes>> wait(const transport::BlobId& id,
                                            const std::vector<std::string>& holders,
                                            transport::Priority priority,
                                            const std::function<bool()>& gives_up);
  // Whether the last request for it found nobody who has it.
  bool lacks(const transport::BlobId& id) const;
  // All such blobs.
  std::vector<transport::BlobId> lacking() const;
  // Whether the last request for it failed.
  bool failed(const transport::BlobId& id) const;
  // This holder can be reached again: it has said something.
  void heard(const std::string& holder);
  // Frees its memory.
  void forget(const transport::BlobId& id);

 private:
  struct Shared;  // callbacks of requests may outlive this object
  transport::Courier& courier_;
  const double retry_s_;
  const std::string substitute_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace thinwire::member
