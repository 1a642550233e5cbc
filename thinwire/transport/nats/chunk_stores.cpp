#include "thinwire/transport/nats/chunk_stores.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "thinwire/transport/nats/jetstream.h"
#include "thinwire/transport/nats/nats_answers.h"

namespace thinwire::transport {
namespace {

constexpr size_t kMaxSite = 255;

bool is_site(std::string_view text) {
  const auto fits = [](char c) {
    return is_courier_name(std::string_view(&c, 1)) || c == '.' || c == ':';
  };
  return !text.empty() && text.size() <= kMaxSite && std::ranges::all_of(text, fits);
}

std::string in_lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

auto not_placed(const std::string& why) { return fail(FailureKind::kRefused, why); }

}  // namespace

void ChunkStores::drop(const Sha256& chunk, const std::string& holder, Courier::Done done) {
  ask_(subjects_.purge(subjects_.chunk_store(holder)),
       purge_request(subjects_.chunk(holder, to_hex(chunk))),
       [done = std::move(done)](const Result<NatsMessage>& message) {
         done(parsed(message, parse_answer));
       });
}

void ChunkStores::count(Courier::Counted counted) {
  if (subjects_.sites()) return count_from(0, 0, std::move(counted));
  ask_(subjects_.info(subjects_.chunk_store("*")), "",
       [counted = std::move(counted)](const Result<NatsMessage>& message) {
         counted(parsed(message, parse_stored_count));
       });
}

// Adds the stores from number `first` on to the chunks of those `before`. Stores of servers that
// are down are left out by the others.
void ChunkStores::count_from(uint64_t first, uint64_t before, Courier::Counted counted) {
  ask_(NatsSubjects::list(), list_request(subjects_.chunk("*", "*"), first),
       [this, first, before, counted = std::move(counted)](const Result<NatsMessage>& message) {
         const Result<ListedStores> listed = parsed(message, parse_listed_stores);
         if (!listed) return counted(tl::unexpected(listed.error()));
         const uint64_t chunks = before + listed->messages;
         const uint64_t next = first + listed->stores;
         if (listed->stores == 0 || next >= listed->total) return counted(chunks);
         count_from(next, chunks, counted);
       });
}

void ChunkStores::list(const std::string& holder, Courier::Listed listed) {
  ask_(subjects_.info(subjects_.chunk_store(holder)),
       subjects_request(subjects_.chunk(holder, "*")),
       [this, holder, listed = std::move(listed)](const Result<NatsMessage>& message) {
         listed(parsed(message, [&](std::span<const uint8_t> bytes) {
           return parse_chunk_names(bytes, subjects_, holder);
         }));
       });
}

// Servers compare tags without regard to case.
void ChunkStores::place(const std::string& holder, const std::string& site, Courier::Done done) {
  if (!subjects_.sites()) return done(not_placed("the run's servers are not sites"));
  if (!is_site(site)) {
    return done(not_placed(
        fmt::format("a site is 1 to {} of A-Z, a-z, 0-9, '.', ':', '-' and '_', got {:?}", kMaxSite,
                    site.substr(0, kMaxSite))));
  }
  const std::string tag = in_lower_case(site);
  ask_(subjects_.create(subjects_.chunk_store(holder)),
       chunk_store_request(subjects_, holder, {.site = tag}),
       [this, holder, tag, done = std::move(done)](const Result<NatsMessage>& message) {
         const Result<StoreMade> made = parsed(message, parse_made);
         if (!made) return done(tl::unexpected(made.error()));
         if (*made == StoreMade::kMade) return done({});
         if (*made == StoreMade::kDiffers) return check_place(holder, tag, done);
         if (*made == StoreMade::kNotYet) {
           return done(fail(FailureKind::kDeadline, "the servers have no leader at the moment"));
         }
         if (*made == StoreMade::kOverlaps) {
           return done(not_placed("the cluster keeps the run's payloads together, without sites"));
         }
         done(not_placed(fmt::format(
             "no server with room is at the site {}: none that is up has this in its server_tags",
             tag)));
       });
}

// Of a store that exists.
void ChunkStores::check_place(const std::string& holder, const std::string& site,
                              Courier::Done done) {
  ask_(subjects_.info(subjects_.chunk_store(holder)), "",
       [site, done = std::move(done)](const Result<NatsMessage>& message) {
         const Result<std::string> before = parsed(message, parse_site);
         if (!before) return done(tl::unexpected(before.error()));
         if (*before == site) return done({});
         done(not_placed(
             fmt::format("its payloads are kept at the site {:?}, not at {}: go on there, "
                         "or join with a new run.dir",
                         before->substr(0, kMaxSite), site)));
       });
}

}  // namespace thinwire::transport
