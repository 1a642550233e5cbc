#include "network.h"

#include <algorithm>
#include <utility>

namespace thinwire::membership {
namespace {

constexpr double kBehindSeconds =
    1e-6;  // between messages of a connection that would arrive together

}  // namespace

void Network::after(double delay_s, std::function<void()> what) {
  queue_.push_back({now_ + delay_s, events_++, std::move(what)});
  std::push_heap(queue_.begin(), queue_.end());
}

void Network::run(double end, const std::function<bool()>& done) {
  while (!queue_.empty() && queue_.front().at <= end && !done()) {
    std::pop_heap(queue_.begin(), queue_.end());
    const Event next = std::move(queue_.back());
    queue_.pop_back();
    now_ = next.at;
    next.what();
  }
}

void Network::update_connections() {
  for (Host* host : hosts_) {
    const bool connected = host->running && host->linked && store_runs_;
    if (connected == host->connected_) continue;
    host->connected_ = connected;
    ++host->session_;
    host->last_in_ = host->last_out_ = now_;
    host->cursor_ = UINT64_MAX;  // it reads nothing until it says from where
    if (connected) {
      to_host(*host, [this, host] { host->on_connected(ledger.last()); });
    } else {
      host->on_disconnected();
    }
  }
}

double Network::delay() {
  const double usual = 0.01 + 0.1 * uniform();
  return !is_calm_ && one_in(50) ? usual + 3 * uniform() : usual;
}

bool Network::to_store(Host& host, std::function<void()> arrives) {
  if (!host.connected_) return false;
  host.last_out_ = std::max(host.last_out_ + kBehindSeconds, now_ + delay());
  after(host.last_out_ - now_, [&host, session = host.session_, what = std::move(arrives)] {
    if (host.session_ == session) what();
  });
  return true;
}

bool Network::to_host(Host& host, std::function<void()> arrives) {
  if (!host.connected_) return false;
  host.last_in_ = std::max(host.last_in_ + kBehindSeconds, now_ + delay());
  after(host.last_in_ - now_, [&host, session = host.session_, what = std::move(arrives)] {
    if (host.session_ == session) what();
  });
  return true;
}

bool Network::put(const Sha256& blob) {
  if (full_) return false;
  if (blobs_.insert(blob).second) unsynced_.insert(blob);
  return true;
}

void Network::append(const Append& append) {
  if (ledger.append(append.expected_last, append.record) != MemoryLedger::Outcome::kStored) return;
  if (on_stored) on_stored(append.record);
  for (Host* host : hosts_) push_records(*host);
}

void Network::read_from(Host& host, uint64_t sequence) {
  host.cursor_ = sequence;
  push_records(host);
}

void Network::push_records(Host& host) {
  while (host.connected_ && host.cursor_ < ledger.last()) {
    const Bytes record = *ledger.read(++host.cursor_);
    to_host(host, [&host, record] { host.on_record(record); });
  }
}

void Network::set_full(bool full) {
  full_ = full;
  ledger.set_full(full);
}

void Network::sync() {
  if (!store_runs_) return;
  ledger.sync();
  unsynced_.clear();
}

void Network::restart_store(double seconds, bool loses) {
  store_runs_ = false;
  update_connections();
  if (loses) {
    lost_anything_ |= !ledger.cut_power().empty();
    for (const Sha256& blob : unsynced_) blobs_.erase(blob);
    unsynced_.clear();
  }
  after(seconds, [this] {
    store_runs_ = true;
    update_connections();
  });
}

}  // namespace thinwire::membership
