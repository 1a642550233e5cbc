#include "thinwire/transport/relay/relay_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "thinwire/base/json.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/nats/jetstream.h"
#include "thinwire/transport/nats/nats_answers.h"

namespace thinwire::transport {

void ChunkCache::add(const Sha256& name, std::shared_ptr<const Bytes> chunk) {
  if (chunk->size() > max_bytes_ || by_name_.contains(name)) return;
  bytes_ += chunk->size();
  entries_.emplace_front(name, std::move(chunk));
  by_name_.emplace(name, entries_.begin());
  while (bytes_ > max_bytes_) {
    const Entry& oldest = entries_.back();
    bytes_ -= oldest.second->size();
    by_name_.erase(oldest.first);
    entries_.pop_back();
  }
}

std::shared_ptr<const Bytes> ChunkCache::find(const Sha256& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

namespace {

// The most of one client. Beyond them its messages are passed on, but not remembered.
constexpr size_t kMaxSubscriptions = 1000;
constexpr size_t kMaxFetching = 1000;
constexpr size_t kMaxStoring = 64;

constexpr std::string_view kMissing = "NATS/1.0 404";

// The chunk's hash in PREFIX HOLDER.KEY, where PREFIX ends with a dot.
std::optional<Sha256> chunk_in(std::string_view subject, std::string_view prefix) {
  if (!subject.starts_with(prefix)) return std::nullopt;
  subject.remove_prefix(prefix.size());
  const size_t dot = subject.find('.');
  if (dot == subject.npos) return std::nullopt;
  const auto key = parse_key(subject.substr(dot + 1), '.');
  return key ? std::optional(key->chunk) : std::nullopt;
}

std::string without_last(const std::string& subject, const std::string& last) {
  return subject.substr(0, subject.size() - last.size());
}

// Subjects of chunks of any holder, up to the holder.
std::string stored_prefix(const NatsSubjects& subjects) {
  return without_last(subjects.chunk("*", ""), "*.");
}

// The hash in a request for a chunk, whatever store it names.
std::optional<Sha256> requested_chunk(std::string_view subject, const NatsSubjects& subjects) {
  if (!subject.starts_with(NatsSubjects::kGet)) return std::nullopt;
  subject.remove_prefix(NatsSubjects::kGet.size());
  const size_t dot = subject.find('.');
  if (dot == subject.npos) return std::nullopt;
  return chunk_in(subject.substr(dot + 1), stored_prefix(subjects));
}

std::shared_ptr<const Bytes> checked(const Sha256& name, std::span<const uint8_t> body) {
  if (body.size() > kMaxMessageBytes || sha256(body) != name) return nullptr;
  return std::make_shared<const Bytes>(body.begin(), body.end());
}

// What a server says about itself, without the addresses of others of its cluster: clients are to
// come back to the relay.
Bytes greeting(const NatsFrame& info) {
  auto json = try_parse_json<nlohmann::json>(info.text);
  if (!json.is_object()) return info.raw;
  json.erase("connect_urls");
  json.erase("ws_connect_urls");
  const std::string line = fmt::format("INFO {}\r\n", print_json(json, {.replace_invalid = true}));
  return {line.begin(), line.end()};
}

}  // namespace

RelayTraffic::RelayTraffic(RelayWire& wire, const std::string& run, uint64_t cache_bytes)
    : wire_(wire), subjects_(run), cache_(cache_bytes) {}

void RelayTraffic::close(uint64_t client) {
  clients_.erase(client);
  std::vector<std::pair<Sha256, Request>> left;
  for (auto& [name, fetch] : fetches_) {
    std::erase_if(fetch.waiting, [&](const Request& one) { return one.client == client; });
    if (fetch.client != client) continue;
    for (Request& one : fetch.waiting) left.emplace_back(name, std::move(one));
  }
  std::erase_if(fetches_, [&](const auto& fetch) { return fetch.second.client == client; });
  for (auto& [name, one] : left) request(one.client, name, one.reply, one.raw);
}

void RelayTraffic::from_client(uint64_t client, const NatsFrame& frame) {
  Client& from = clients_.at(client);
  if (frame.verb == NatsVerb::kSubscribe && from.subscriptions.size() < kMaxSubscriptions) {
    from.subscriptions[frame.sid] = frame.subject;
  }
  if (frame.verb == NatsVerb::kUnsubscribe && !frame.later) from.subscriptions.erase(frame.sid);
  if (frame.verb == NatsVerb::kPublish && !frame.reply.empty()) {
    if (const auto name = requested_chunk(frame.subject, subjects_)) {
      return request(client, *name, frame.reply, frame.raw);
    }
    if (const auto name = chunk_in(frame.subject, stored_prefix(subjects_))) {
      note_storing(from, *name, frame);
    }
  }
  wire_.to_server(client, frame.raw);
}

void RelayTraffic::request(uint64_t client, const Sha256& name, const std::string& reply,
                           std::span<const uint8_t> raw) {
  Client& from = clients_.at(client);
  if (from.may_fetch) {
    const std::shared_ptr<const Bytes> chunk = cache_.find(name);
    if (chunk && answer(client, reply, *chunk)) return;
    if (wait(name, {client, reply, {raw.begin(), raw.end()}})) return;
  }
  if (from.fetching.size() < kMaxFetching) {
    from.fetching.emplace(request_of(reply), name);
    // Nobody is made to wait for the answer to somebody who may not be given one.
    if (from.may_fetch) fetches_.try_emplace(name, Fetch{client, request_of(reply), {}});
  }
  wire_.to_server(client, raw);
}

// False: nobody else is fetching it, or this client asked before and now asks the server itself.
bool RelayTraffic::wait(const Sha256& name, Request request) {
  const auto fetch = fetches_.find(name);
  if (fetch == fetches_.end() || fetch->second.client == request.client) return false;
  std::vector<Request>& waiting = fetch->second.waiting;
  if (std::ranges::count(waiting, request.client, &Request::client) != 0) return false;
  waiting.push_back(std::move(request));
  return true;
}

void RelayTraffic::note_storing(Client& client, const Sha256& name, const NatsFrame& frame) {
  if (client.storing.size() >= kMaxStoring || !frame.headers().empty()) return;
  if (auto chunk = checked(name, frame.body())) {
    client.storing.insert_or_assign(frame.reply, Storing{name, std::move(chunk)});
  }
}

void RelayTraffic::from_server(uint64_t client, const NatsFrame& frame) {
  Client& to = clients_.at(client);
  if (frame.verb == NatsVerb::kInfo) return wire_.to_client(client, greeting(frame));
  wire_.to_client(client, frame.raw);
  if (frame.verb != NatsVerb::kDeliver) return;
  if (const auto fetched = to.fetching.extract(request_of(frame.subject))) {
    take_answer(client, fetched.mapped(), frame);
  } else if (const auto stored = to.storing.extract(frame.subject)) {
    take_acknowledgement(to, stored.mapped(), frame);
  }
}

void RelayTraffic::take_answer(uint64_t client, const Sha256& name, const NatsFrame& frame) {
  const bool missing = frame.headers().starts_with(kMissing);
  const auto chunk = missing ? nullptr : checked(name, frame.body());
  if (chunk || missing) clients_.at(client).may_fetch = true;
  if (chunk) return keep(name, chunk);
  const auto fetch = fetches_.find(name);
  const bool awaited = fetch != fetches_.end() && fetch->second.client == client &&
                       fetch->second.request == request_of(frame.subject);
  if (!awaited) return;
  // The others may have named another holder.
  const std::vector<Request> waiting = std::move(fetch->second.waiting);
  fetches_.erase(fetch);
  for (const Request& one : waiting) {
    clients_.at(one.client).fetching.emplace(request_of(one.reply), name);
    wire_.to_server(one.client, one.raw);
  }
}

void RelayTraffic::take_acknowledgement(Client& client, const Storing& stored,
                                        const NatsFrame& frame) {
  if (!parse_store_answer(frame.body())) return;
  client.may_fetch = true;
  keep(stored.name, stored.chunk);
}

void RelayTraffic::keep(const Sha256& name, const std::shared_ptr<const Bytes>& chunk) {
  cache_.add(name, chunk);
  const auto fetch = fetches_.extract(name);
  if (!fetch) return;
  for (const Request& one : fetch.mapped().waiting) {
    if (!answer(one.client, one.reply, *chunk)) wire_.to_server(one.client, one.raw);
  }
}

// False: it has no subscription that would receive the answer.
bool RelayTraffic::answer(uint64_t client, const std::string& reply, const Bytes& chunk) {
  const auto& subscriptions = clients_.at(client).subscriptions;
  const auto subscription = std::ranges::find_if(
      subscriptions, [&](const auto& one) { return subject_matches(one.second, reply); });
  if (subscription == subscriptions.end()) return false;
  // As for every stored message: without its stream a chunk could be taken for the server's word.
  const std::string headers =
      fmt::format("NATS/1.0\r\nNats-Stream: {}\r\n\r\n", subjects_.chunk_store("*"));
  wire_.to_client(client, deliver_frame(reply, subscription->first, headers, chunk));
  ++shared_chunks_;
  shared_bytes_ += chunk.size();
  return true;
}

}  // namespace thinwire::transport
