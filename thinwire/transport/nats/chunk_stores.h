// A coordinator's requests about the stores that keep chunks: one for everybody, or, where every
// site has a server of its own, one for each holder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "thinwire/base/sha256.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/nats_requests.h"
#include "thinwire/transport/nats/nats_subjects.h"

namespace thinwire::transport {

// Used by one thread. The functions are those of Courier, and say what their answers mean; names
// are valid.
class ChunkStores {
 public:
  // Sends a request, whose answer comes later, by the same thread.
  using Ask = std::function<void(const std::string& subject, const std::string& request,
                                 NatsRequests::Answer answer)>;

  // Both must outlive it.
  ChunkStores(const NatsSubjects& subjects, Ask ask) : subjects_(subjects), ask_(std::move(ask)) {}

  void drop(const Sha256& chunk, const std::string& holder, Courier::Done done);
  void count(Courier::Counted counted);
  void list(const std::string& holder, Courier::Listed listed);
  void place(const std::string& holder, const std::string& site, Courier::Done done);

 private:
  void count_from(uint64_t first, uint64_t before, Courier::Counted counted);
  void check_place(const std::string& holder, const std::string& site, Courier::Done done);

  const NatsSubjects& subjects_;
  const Ask ask_;
};

}  // namespace thinwire::transport
