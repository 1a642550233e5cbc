#include "thinwire/transport/courier/blob_transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

namespace thinwire::transport {
namespace {

constexpr size_t kMaxWindow = 32;
constexpr double kBulkPause = 0.05;  // seconds
constexpr double kBulkShare = 8;     // bulk waits at most so many times what a chunk of it takes
constexpr size_t kPartialsKept = 4;

// The transfers in the order in which they go.
template <typename Transfer>
std::vector<std::pair<const uint64_t, Transfer>*> by_priority(std::map<uint64_t, Transfer>& all) {
  std::vector<std::pair<const uint64_t, Transfer>*> order;
  for (auto& one : all) order.push_back(&one);
  std::ranges::stable_sort(order, {}, [](const auto* one) { return one->second.priority; });
  return order;
}

}  // namespace

BlobTransfers::BlobTransfers(ChunkWire& wire, double timeout_s, uint64_t max_blob_bytes,
                             LineLimit* line)
    : wire_(wire), line_(line), timeout_s_(timeout_s), max_blob_bytes_(max_blob_bytes) {}

void BlobTransfers::put(double now, std::shared_ptr<const BlobChunks> blob, Priority priority,
                        Courier::Done done) {
  if (priority == Priority::kBulk && !stores_bulk()) bulk_since_ = now;
  puts_.emplace(++last_number_, Put{std::move(blob), priority, std::move(done)});
  pump(now);
}

void BlobTransfers::get(double now, const Sha256& blob, const BlobId& id,
                        std::vector<std::string> holders, Priority priority, Courier::Got got) {
  if (id.bytes > max_blob_bytes_ || holders.empty()) {
    Result<Bytes> refusal =
        fail(FailureKind::kRefused,
             holders.empty()
                 ? fmt::format("blob {} is requested without a holder to ask", to_hex(id.name))
                 : fmt::format("blob {} has {} bytes; at most {} are accepted", to_hex(id.name),
                               id.bytes, max_blob_bytes_));
    answers_.emplace_back([got = std::move(got), refusal] { got(refusal); });
    return;
  }
  const auto same = std::ranges::find_if(
      gets_, [&](const auto& one) { return one.second.id == id && one.second.blob == blob; });
  if (same != gets_.end()) {
    Get& get = same->second;
    get.callbacks.push_back(std::move(got));
    get.priority = std::min(get.priority, priority);
    for (std::string& holder : holders) {
      const bool known = std::ranges::find(get.holders, holder) != get.holders.end();
      if (!known) get.holders.push_back(std::move(holder));
    }
    return;
  }
  BlobAssembly assembly(id);
  const auto begun = std::ranges::find(partial_, id, [](const auto& one) { return one.first; });
  if (begun != partial_.end()) {
    assembly = std::move(begun->second);
    partial_.erase(begun);
    assembly.restart();
  }
  gets_.emplace(
      ++last_number_,
      Get{blob, id, std::move(holders), priority, {std::move(got)}, std::move(assembly), {}});
  pump(now);
}

void BlobTransfers::pump(double now) {
  pumped_at_ = now;
  // Requests first: they are small, and their answers do not compete with what is sent.
  while (down_.flights.size() < down_.window && ask_next(now)) continue;
  while (up_.flights.size() < up_.window && send_next(up_, now)) continue;
  if (bulk_up_.flights.empty() && now >= bulk_turn()) (void)send_next(bulk_up_, now);
  if (!up_.flights.empty() || now < bulk_from_) return;
  while (bulk_up_.flights.size() < bulk_up_.window && send_next(bulk_up_, now)) continue;
}

bool BlobTransfers::stores_bulk() const {
  return std::ranges::any_of(
      puts_, [](const auto& one) { return one.second.priority == Priority::kBulk; });
}

double BlobTransfers::bulk_turn() const {
  return bulk_since_ + std::max(kBulkPause, kBulkShare * bulk_took_);
}

bool BlobTransfers::send_next(Lane& lane, double now) {
  if (!may_send(now)) return false;
  for (auto* one : by_priority(puts_)) {
    auto& [transfer, put] = *one;
    if (&up_of(put) != &lane || put.next == put.blob->chunks().size()) continue;
    const Chunk& chunk = put.blob->chunks()[put.next];
    const uint64_t ticket = ++last_number_;
    lane.flights.emplace(ticket,
                         Flight{transfer, chunk.key.chunk, put.next++, now, now + timeout_s_, 0});
    wire_.store(ticket, chunk);
    return true;
  }
  return false;
}

bool BlobTransfers::ask_next(double now) {
  if (!may_request(now)) return false;
  for (auto* one : by_priority(gets_)) {
    auto& [transfer, get] = *one;
    const std::optional<Sha256> name = get.assembly.next();
    if (!name) continue;
    const size_t holder = holder_for(get, *name);
    const uint64_t ticket = ++last_number_;
    const auto expected = static_cast<size_t>(std::min<uint64_t>(get.id.bytes, kMaxMessageBytes));
    down_.flights.emplace(ticket, Flight{transfer, *name, holder, now, now + timeout_s_, expected});
    if (line_ != nullptr) line_->expect(now, expected);
    wire_.fetch(ticket, {get.blob, *name}, get.holders[holder]);
    return true;
  }
  return false;
}

// Different chunks start with different holders, so that all holders share the load. Those that
// have left another chunk unanswered, of whatever blob, come last.
size_t BlobTransfers::holder_for(const Get& get, const Sha256& chunk) const {
  const size_t count = get.holders.size();
  const auto failed = get.failed_holders.find(chunk);
  std::optional<size_t> last;
  for (size_t i = 0; i < count; ++i) {
    const size_t holder = (chunk.bytes[0] + i) % count;
    if (failed != get.failed_holders.end() && failed->second.contains(holder)) continue;
    if (!silent_.contains(get.holders[holder])) return holder;
    if (!last) last = holder;
  }
  return last.value();
}

std::optional<BlobTransfers::Flight> BlobTransfers::land(Lane& lane, uint64_t ticket, double now) {
  const auto found = lane.flights.find(ticket);
  if (found == lane.flights.end()) return std::nullopt;
  const Flight flight = found->second;
  const bool full = lane.flights.size() >= lane.window;
  lane.flights.erase(found);
  const double took = now - flight.sent;
  if (took < lane.quick_s && full) lane.window = std::min(lane.window + 1, kMaxWindow);
  if (took > lane.slow_s) lane.window = std::max(lane.window - 1, lane.least);
  return flight;
}

const Chunk* BlobTransfers::storing(uint64_t ticket) const {
  for (const Lane* lane : {&up_, &bulk_up_}) {
    const auto flight = lane->flights.find(ticket);
    if (flight == lane->flights.end()) continue;
    return &puts_.at(flight->second.transfer).blob->chunks()[flight->second.place];
  }
  return nullptr;
}

void BlobTransfers::stored(double now, uint64_t ticket, Result<void> result) {
  std::optional<Flight> flight = land(up_, ticket, now);
  if (flight) {
    bulk_from_ = now + kBulkPause;
  } else {
    flight = land(bulk_up_, ticket, now);
    if (flight) {
      bulk_took_ = now - flight->sent;
      bulk_since_ = now;
    }
  }
  if (!flight) return;
  if (!result) {
    fail_put(flight->transfer, result.error());
  } else {
    const auto found = puts_.find(flight->transfer);
    Put& put = found->second;
    if (++put.stored == put.blob->chunks().size()) {
      answers_.emplace_back([done = std::move(put.done)] { done({}); });
      puts_.erase(found);
    }
  }
  pump(now);
}

void BlobTransfers::fetched(double now, uint64_t ticket, Result<Bytes> chunk) {
  const std::optional<Flight> flight = land(down_, ticket, now);
  if (!flight) return;
  if (line_ != nullptr) line_->expect_no_more(flight->expected);
  const auto found = gets_.find(flight->transfer);
  Get& get = found->second;
  const std::string& holder = get.holders[flight->place];
  const bool late_answer = !chunk && chunk.error().kind == FailureKind::kDeadline;
  if (!late_answer) silent_.erase(holder);
  if (!chunk) {
    fetch_failed(*flight, chunk.error());
  } else if (!get.assembly.add(flight->name, *chunk)) {
    fetch_failed(*flight, {FailureKind::kCorruptPayload,
                           fmt::format("chunk {} from {} has {} bytes that do not match its name",
                                       to_hex(flight->name), holder, chunk->size())});
  } else if (get.assembly.complete()) {
    answer(get, get.assembly.take());
    gets_.erase(found);
  }
  pump(now);
}

// The next holder is asked. If there is none, the failure combines what is known about all holders:
// one that did not answer may have the blob.
void BlobTransfers::fetch_failed(const Flight& flight, const Failure& failure) {
  Get& get = gets_.at(flight.transfer);
  if (failure.kind == FailureKind::kDeadline) {
    get.unanswered = true;
    silent_.insert(get.holders[flight.place]);
  }
  get.altered |= failure.kind == FailureKind::kCorruptPayload;
  std::set<size_t>& tried = get.failed_holders[flight.name];
  tried.insert(flight.place);
  if (tried.size() < get.holders.size()) {
    get.assembly.retry(flight.name);
    return;
  }
  Failure all = failure;
  if (get.unanswered) {
    all = late("fetching a chunk");
  } else if (get.altered && failure.kind != FailureKind::kCorruptPayload) {
    all = {FailureKind::kCorruptPayload,
           fmt::format("altered at the holder that has it; elsewhere: {}", failure.message)};
  }
  fail_get(flight.transfer, all);
}

void BlobTransfers::fail_put(uint64_t transfer, const Failure& failure) {
  const auto found = puts_.find(transfer);
  forget(up_of(found->second), transfer);
  answers_.emplace_back(
      [done = std::move(found->second.done), failure] { done(tl::unexpected(failure)); });
  puts_.erase(found);
}

void BlobTransfers::fail_get(uint64_t transfer, const Failure& failure) {
  const auto found = gets_.find(transfer);
  for (const auto& [ticket, flight] : down_.flights) {
    if (line_ != nullptr && flight.transfer == transfer) line_->expect_no_more(flight.expected);
  }
  forget(down_, transfer);
  answer(found->second, tl::unexpected(failure));
  partial_.emplace_back(found->second.id, std::move(found->second.assembly));
  if (partial_.size() > kPartialsKept) partial_.pop_front();
  gets_.erase(found);
}

void BlobTransfers::answer(const Get& get, const Result<Bytes>& result) {
  for (const Courier::Got& got : get.callbacks)
    answers_.emplace_back([got, result] { got(result); });
}

void BlobTransfers::forget(Lane& lane, uint64_t transfer) {
  std::erase_if(lane.flights, [&](const auto& one) { return one.second.transfer == transfer; });
}

void BlobTransfers::resend(double now) {
  for (Lane* lane : {&up_, &bulk_up_}) {
    for (auto& [ticket, flight] : std::exchange(lane->flights, {})) {
      flight.sent = now;
      const uint64_t fresh = ++last_number_;
      lane->flights.emplace(fresh, flight);
      wire_.store(fresh, puts_.at(flight.transfer).blob->chunks()[flight.place]);
    }
  }
  for (auto& [ticket, flight] : std::exchange(down_.flights, {})) {
    flight.sent = now;
    const uint64_t fresh = ++last_number_;
    down_.flights.emplace(fresh, flight);
    const Get& get = gets_.at(flight.transfer);
    wire_.fetch(fresh, {get.blob, flight.name}, get.holders[flight.place]);
  }
}

std::optional<uint64_t> BlobTransfers::late_ticket(const Lane& lane, double now) {
  const auto late = std::ranges::find_if(
      lane.flights, [&](const auto& one) { return one.second.deadline <= now; });
  return late == lane.flights.end() ? std::nullopt : std::optional(late->first);
}

Failure BlobTransfers::late(const char* what) const {
  return {FailureKind::kDeadline, fmt::format("{} was not answered in {:g} s", what, timeout_s_)};
}

void BlobTransfers::expire(double now) {
  for (const Lane* lane : {&up_, &bulk_up_}) {
    while (const auto ticket = late_ticket(*lane, now)) {
      fail_put(lane->flights.at(*ticket).transfer, late("storing a chunk"));
    }
  }
  while (const auto ticket = late_ticket(down_, now)) {
    const Flight flight = *land(down_, *ticket, now);
    fetch_failed(flight, late("fetching a chunk"));
  }
  pump(now);
}

double BlobTransfers::next_deadline() const {
  double next = std::numeric_limits<double>::infinity();
  for (const Lane* lane : {&up_, &bulk_up_, &down_}) {
    for (const auto& [ticket, flight] : lane->flights) next = std::min(next, flight.deadline);
  }
  if (line_ != nullptr) {  // it may be what holds them back
    if (!puts_.empty() && line_->sends_at() > pumped_at_) next = std::min(next, line_->sends_at());
    if (!gets_.empty() && line_->requests_at() > pumped_at_) {
      next = std::min(next, line_->requests_at());
    }
  }
  if (!bulk_up_.flights.empty() || !stores_bulk()) return next;
  const double line = line_ == nullptr ? 0 : line_->sends_at();
  return std::min(
      {next, std::max(bulk_turn(), line), up_.flights.empty() ? std::max(bulk_from_, line) : next});
}

void BlobTransfers::close(const Failure& failure) {
  while (!puts_.empty()) fail_put(puts_.begin()->first, failure);
  while (!gets_.empty()) fail_get(gets_.begin()->first, failure);
}

}  // namespace thinwire::transport
