// The subjects of a run on a NATS server: what couriers publish and subscribe to, and the basis of
// the server's permissions (nats_config.h). docs/formats.md, "Subjects".
#pragma once

#include <string>
#include <string_view>

#include "thinwire/base/digest.h"
#include "thinwire/base/signature.h"

namespace thinwire::transport {

// `run` and all names are courier names (is_courier_name); in a subject that is subscribed to or
// allowed, a name may also be "*", for all. `sites`: each holder's chunks are in a store of their
// own, on the server of its site.
class NatsSubjects {
 public:
  explicit NatsSubjects(std::string run, bool sites = false)
      : run_(std::move(run)), sites_(sites) {}

  const std::string& run() const { return run_; }
  bool sites() const { return sites_; }
  std::string statement(const std::string& from, const std::string& topic) const {
    return run_ + ".say." + from + "." + topic;
  }
  // `key`: print_key with a dot, or kAllChunks.
  std::string chunk(const std::string& holder, const std::string& key) const {
    return run_ + ".blob." + holder + "." + key;
  }
  static constexpr const char* kAllChunks = "*.*";
  // The JetStream stream that keeps a holder's chunks, and those that keep records.
  std::string chunk_store(const std::string& holder) const {
    if (!sites_) return run_ + "-blobs";
    return holder == "*" ? "*" : run_ + "-blobs-" + holder;
  }
  std::string record_store(const std::string& stream) const { return run_ + "-log-" + stream; }
  // Where records are published, and where the server republishes them once they are stored.
  std::string record(const std::string& stream) const { return run_ + ".log." + stream; }
  std::string stored_record(const std::string& stream) const { return run_ + ".kept." + stream; }

  static constexpr std::string_view kGet = "$JS.API.DIRECT.GET.";

  // JetStream's own subjects: a subject's last message, a message by its sequence, administration.
  std::string get_chunk(const std::string& holder, const std::string& key) const {
    return std::string(kGet) + chunk_store(holder) + "." + chunk(holder, key);
  }
  std::string get_record(const std::string& stream) const {
    return std::string(kGet) + record_store(stream);
  }
  std::string create(const std::string& store) const { return "$JS.API.STREAM.CREATE." + store; }
  std::string info(const std::string& store) const { return "$JS.API.STREAM.INFO." + store; }
  std::string purge(const std::string& store) const { return "$JS.API.STREAM.PURGE." + store; }
  static std::string list() { return "$JS.API.STREAM.LIST"; }

  // Where a cluster announces that another of its servers now leads a store.
  static std::string elected(const std::string& store) {
    return "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED." + store;
  }
  // Where servers announce whose connection has begun or ended (courier/courier.h). Accounts are
  // made before runs, so they do not depend on the run.
  static std::string arrivals() { return "thinwire.server.arrival"; }
  static std::string departures() { return "thinwire.server.departure"; }

  // Everything below this subject is an answer to one participant.
  static std::string inbox(const std::string& name) { return "_INBOX." + name; }
  // One for a single connection: a participant may have several.
  static std::string fresh_inbox(const std::string& name) {
    return inbox(name) + "." + to_hex(sha256(make_seed())).substr(0, 32);
  }

 private:
  std::string run_;
  bool sites_;
};

}  // namespace thinwire::transport
