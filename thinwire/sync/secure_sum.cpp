#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "thinwire/codec/wire.h"
#include "thinwire/method/operations.h"
#include "thinwire/sync/private_sum.h"

namespace thinwire::sync {
namespace {

using Deliveries = std::vector<transport::Delivery>;

using method::kMaskKeysBytes;
using method::kMaskSharesBytes;
using method::kMostSecureMembers;
using method::kRevealBytes;
static_assert(kMaskKeysBytes == 2 * sizeof(AgreementKey) + sizeof(Sha256));
static_assert(kMaskSharesBytes == 2 * sizeof(Secret) + kSealBytes);
static_assert(kRevealBytes == 1 + sizeof(Secret));

constexpr int64_t kGrain = 4096;    // values, whole blocks of a stream
constexpr float kLimit = 16;        // of values without their weight
constexpr double kSteps = 1 << 26;  // in 1

transport::Key with_fragment(transport::Key key, uint32_t fragment) {
  key.fragment = fragment;
  return key;
}

float to_word(float value, float limit) {
  const float limited = std::clamp(value, -limit, limit);
  return std::bit_cast<float>(static_cast<int32_t>(std::lrint(limited * kSteps)));
}

float to_value(float word, double factor) {
  return static_cast<float>(std::bit_cast<int32_t>(word) / kSteps * factor);
}

// What hides values that two members send: both derive it from what they agree on.
Secret mask_secret(const Secret& agreed, const AgreementKey& one, const AgreementKey& other) {
  Bytes all;
  ByteWriter out(all);
  out.put_bytes(agreed);
  out.put_bytes(std::min(one, other));
  out.put_bytes(std::max(one, other));
  return sha256(all).bytes;
}

template <size_t kSize>
void read(ByteReader& in, std::array<uint8_t, kSize>& out) {
  std::ranges::copy(in.get_bytes(kSize), out.begin());
}

void check_finite(std::span<const float> values) {
  if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return;
  throw Error("the weights are no longer finite; lower optim.lr or raise schedule.warmup");
}

}  // namespace

Result<bool> SecureSum::form(const transport::Key& key, std::span<float> values,
                             const MemberShares& shares) {
  const Own own;
  if (std::ranges::find(shares.from, communicator_.rank()) != shares.from.end()) {
    check_finite(values);
  }
  if (auto done = exchange_keys(key, shares, own); !done) return tl::unexpected(done.error());
  const Result<bool> known = peers_.size() < 2 ? false : sum_of_peers(key, values, shares, own);
  if (!known) return known;
  if (*known) {
    take_mean(shares, values);
  } else {
    std::ranges::fill(values, 0.0f);
  }
  return known;
}

Result<bool> SecureSum::sum_of_peers(const transport::Key& key, std::span<float> values,
                                     const MemberShares& shares, const Own& own) {
  if (auto done = exchange_shares(key, shares, own); !done) return tl::unexpected(done.error());
  if (auto done = add_up(key, values, shares, own); !done) return tl::unexpected(done.error());
  return unmask(key, values);
}

void SecureSum::take_mean(const MemberShares& shares, std::span<float> values) {
  double all = 0, there = 0;
  for (size_t i = 0; i < shares.from.size(); ++i) {
    all += shares.weights[i];
    const Peer* const peer = find(shares.from[i]);
    if (peer != nullptr && peer->counts) there += shares.weights[i];
  }
  threads_.for_ranges(std::ssize(values), kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      float& value = values[static_cast<size_t>(i)];
      value = to_value(value, all / there);
    }
  });
}

Result<void> SecureSum::exchange_keys(const transport::Key& key, const MemberShares& shares,
                                      const Own& own) {
  const transport::Key name = with_fragment(key, method::kMaskKeysFragment);
  Bytes payload;
  ByteWriter out(payload);
  out.put_bytes(own.sealing.key());
  out.put_bytes(own.masking.key());
  out.put_bytes(sha256(own.own).bytes);
  communicator_.start_all_gather(name, std::move(payload), shares.from);
  const Result<Deliveries> all = communicator_.wait_all_gather(name, timeout_s_);
  if (!all) return tl::unexpected(all.error());
  peers_.clear();
  for (const transport::Delivery& one : *all) {
    if (one.payload->size() != kMaskKeysBytes || peers_.size() == kMostSecureMembers) continue;
    ByteReader in(*one.payload);
    Peer& peer = peers_.emplace_back();
    peer.member = one.member;
    read(in, peer.sealing);
    read(in, peer.masking);
    read(in, peer.own_hash.bytes);
    // A key of which nothing can be agreed on is none, whoever tries.
    if (!own.sealing.agree(peer.sealing)) peers_.pop_back();
  }
  // Not where an earlier process of this member gave keys, whose secrets this one does not have.
  self_ = find(communicator_.rank());
  const bool is_own = self_ != nullptr && self_->sealing == own.sealing.key() &&
                      self_->masking == own.masking.key() && self_->own_hash == sha256(own.own);
  if (!is_own) self_ = nullptr;
  return {};
}

// Shares for all who gave keys, in their order.
Result<void> SecureSum::exchange_shares(const transport::Key& key, const MemberShares& shares,
                                        const Own& own) {
  const transport::Key name = with_fragment(key, method::kMaskSharesFragment);
  Bytes payload;
  if (self_ != nullptr) {
    ByteWriter out(payload);
    const auto of_masking = share_secret(own.masking_secret, peers_.size(), needed());
    const auto of_own = share_secret(own.own, peers_.size(), needed());
    for (size_t i = 0; i < peers_.size(); ++i) {
      Bytes both;
      ByteWriter part(both);
      part.put_bytes(of_masking[i]);
      part.put_bytes(of_own[i]);
      out.put_bytes(seal(peers_[i].sealing, both));
    }
  }
  communicator_.start_all_gather(name, std::move(payload), shares.from);
  const Result<Deliveries> all = communicator_.wait_all_gather(name, timeout_s_);
  if (!all) return tl::unexpected(all.error());
  for (const transport::Delivery& one : *all) {
    Peer* const peer = find(one.member);
    if (peer == nullptr || one.payload->size() != peers_.size() * kMaskSharesBytes) continue;
    peer->gave = true;
    if (self_ == nullptr) continue;
    const auto place = static_cast<size_t>(self_ - peers_.data());
    const auto both = own.sealing.open(
        std::span(*one.payload).subspan(place * kMaskSharesBytes, kMaskSharesBytes));
    if (!both) continue;
    ByteReader in(*both);
    read(in, peer->held.emplace()[0]);
    read(in, (*peer->held)[1]);
  }
  return {};
}

Result<void> SecureSum::add_up(const transport::Key& key, std::span<float> values,
                               const MemberShares& shares, const Own& own) {
  transport::Contributors from;
  for (const Peer& peer : peers_) {
    const bool contributes = peer.gave && (&peer == self_ || peer.member != communicator_.rank());
    if (contributes) from.push_back(peer.member);
  }
  if (from.empty()) return {};
  if (self_ != nullptr && self_->gave) {
    const auto place = std::ranges::find(shares.from, self_->member) - shares.from.begin();
    const float limit = kLimit * shares.weights[static_cast<size_t>(place)];
    threads_.for_ranges(std::ssize(values), kGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        float& value = values[static_cast<size_t>(i)];
        value = to_word(value, limit);
      }
    });
    add_stream(own.own, false, values);
    add_masks(
        *self_, own.masking, [](const Peer& peer) { return peer.gave; }, values);
  }
  communicator_.start_all_reduce(key, values, codec::wire_codec(SumFormats{.words = true}), from);
  const auto counted = communicator_.counted(key, timeout_s_);
  if (!counted) return tl::unexpected(counted.error());
  for (const int member : *counted ? **counted : from) {
    if (Peer* const peer = find(member)) peer->counts = true;
  }
  return communicator_.wait_all_reduce(key, values, timeout_s_);
}

// What this member reveals is decided by what has been committed, once: it cannot be asked again.
Result<bool> SecureSum::unmask(const transport::Key& key, std::span<float> values) {
  const transport::Key name = with_fragment(key, method::kRevealsFragment);
  transport::Contributors givers;
  for (const Peer& peer : peers_) {
    if (peer.gave) givers.push_back(peer.member);
  }
  if (givers.empty()) return false;
  communicator_.start_all_gather(name, is_enough() ? reveals() : Bytes(), givers);
  const Result<Deliveries> all = communicator_.wait_all_gather(name, timeout_s_);
  if (!all) return tl::unexpected(all.error());
  if (!is_enough()) return false;
  std::vector<std::optional<Secret>> secrets(peers_.size());
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i].gave) continue;
    secrets[i] = recovered(i, *all);
    if (!secrets[i]) return false;
  }
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (!secrets[i]) continue;
    if (peers_[i].counts) {
      add_stream(*secrets[i], true, values);
    } else {
      // What it would have sent cancels what the others sent.
      add_masks(
          peers_[i], KeyPair(*secrets[i]), [](const Peer& peer) { return peer.counts; }, values);
    }
  }
  return true;
}

// Of each who gave shares: whether this member holds its share, and the share.
Bytes SecureSum::reveals() const {
  Bytes payload;
  ByteWriter out(payload);
  for (const Peer& peer : peers_) {
    if (!peer.gave) continue;
    const Secret nothing{};
    out.put(static_cast<uint8_t>(peer.held ? 1 : 0));
    out.put_bytes(peer.held ? (*peer.held)[peer.counts ? 1 : 0] : nothing);
  }
  return payload;
}

// One may have revealed a wrong share: then one after the other is left out, as far as there are
// more than are needed.
std::optional<Secret> SecureSum::recovered(size_t peer, std::span<const transport::Delivery> all) {
  const Peer& whose = peers_[peer];
  const auto place = static_cast<size_t>(
      std::count_if(peers_.begin(), peers_.begin() + static_cast<std::ptrdiff_t>(peer),
                    [](const Peer& one) { return one.gave; }));
  const auto givers = static_cast<size_t>(std::ranges::count(peers_, true, &Peer::gave));
  std::vector<SecretShare> shares;
  for (const transport::Delivery& one : all) {
    const Peer* const holder = find(one.member);
    if (holder == nullptr || one.payload->size() != givers * kRevealBytes) continue;
    ByteReader in(std::span(*one.payload).subspan(place * kRevealBytes, kRevealBytes));
    if (in.get<uint8_t>() != 1) continue;
    SecretShare& share = shares.emplace_back();
    share.index = static_cast<size_t>(holder - peers_.data());
    read(in, share.value);
  }
  const auto is_right = [&](const Secret& secret) {
    return whose.counts ? sha256(secret) == whose.own_hash : KeyPair(secret).key() == whose.masking;
  };
  if (shares.size() < needed()) return std::nullopt;
  const Secret first = combine_shares(std::span(shares).first(needed()));
  if (is_right(first)) return first;
  for (size_t wrong = 0; wrong < needed() && shares.size() > needed(); ++wrong) {
    std::vector<SecretShare> others = shares;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(wrong));
    const Secret secret = combine_shares(std::span(others).first(needed()));
    if (is_right(secret)) return secret;
  }
  return std::nullopt;
}

void SecureSum::add_masks(const Peer& peer, const KeyPair& masking, bool (*with)(const Peer&),
                          std::span<float> values) {
  for (const Peer& other : peers_) {
    if (&other == &peer || !with(other)) continue;
    // Whoever's key is none agrees on nothing, and neither side has a mask.
    const auto agreed = masking.agree(other.masking);
    if (!agreed) continue;
    const bool is_later = peer.member > other.member;
    add_stream(mask_secret(*agreed, peer.masking, other.masking), is_later, values);
  }
}

void SecureSum::add_stream(const Secret& secret, bool subtract, std::span<float> values) {
  threads_.for_ranges(std::ssize(values), kGrain, [&](int64_t begin, int64_t end, int) {
    add_key_stream(secret, static_cast<uint64_t>(begin), subtract,
                   values.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  });
}

SecureSum::Peer* SecureSum::find(int member) {
  const auto found = std::ranges::lower_bound(peers_, member, {}, &Peer::member);
  return found == peers_.end() || found->member != member ? nullptr : &*found;
}

bool SecureSum::is_enough() const {
  return std::cmp_greater_equal(std::ranges::count(peers_, true, &Peer::counts), needed());
}

}  // namespace thinwire::sync
