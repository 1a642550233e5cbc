// Secure sums (privacy.secure_sums, docs/federated.md): all learn the sum of what members
// contribute, and nobody, neither who forms it nor another member, what one of them contributed.
// After Bonawitz et al. 2017 (arXiv 1611.04482), protocol 1, with the coordinator as the server:
// it follows the protocol, but keeps all that it receives.
//
// What member i contributes is x_i as integers modulo 2^32. It sends
//
//   y_i = x_i + M(b_i) + sum over j > i of M(s_ij) - sum over j < i of M(s_ij)
//
// with M a key stream (base/secrets.h), b_i a secret of its own, and s_ij one that i and j agree
// on, so that the masks M(s_ij) cancel in the sum. For those that do not, because someone has gone,
// every member holds a share of each secret. There are four operations, one after the other:
//
//   keys: a key for shares, one to agree on s_ij with, and the hash of b_i.
//
//   shares: for each member, sealed for it, its share of b_i and of the key that s_ij are made
//   with.
//
//   sum: y_i, of those who gave shares.
//
//   reveals: of each who is in the sum its share of b_i, of each other one its share of the key;
//   never both, and nothing unless more than half of those who gave keys are in the sum.
//
// Then all take M(b_i), and the masks with those who are missing, from the sum. A member whose
// process has begun anew in between has lost its secrets, and contributes nothing.
//
// Values are limited to +-16, times their weight, and then rounded to multiples of 2^-26. Weights
// add up to at most 1, so sums do not overflow.
//
// Below: clipping and noise, which bound what a contribution tells to whoever sees it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/secrets.h"
#include "thinwire/base/threads.h"
#include "thinwire/config/sections.h"
#include "thinwire/sync/member_sum.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {

// Used by one thread, the communicator's.
class SecureSum {
 public:
  // Both must outlive it.
  SecureSum(transport::Communicator& communicator, ThreadPool& threads, double timeout_s)
      : communicator_(communicator), threads_(threads), timeout_s_(timeout_s) {}

  // `values`: what this member contributes, times its weight, and afterwards the mean over those
  // who are in the sum, the same for all: what is missing is made up for, as in MemberSum. It is
  // zero, and the result false, where too few have revealed what they hold, because more than half
  // have gone, or where a member is alone. Throws Error if a value is not finite. `key`: of the
  // sum; its operations have the same key, but for the fragment (method/operations.h).
  Result<bool> form(const transport::Key& key, std::span<float> values, const MemberShares& shares);

 private:
  using Shares = std::array<Secret, 2>;  // of the key, and of b_i
  struct Peer {
    int member = 0;
    AgreementKey sealing{};
    AgreementKey masking{};
    Sha256 own_hash{};           // of b_i
    std::optional<Shares> held;  // this member's shares of its secrets
    bool gave = false;           // shares
    bool counts = false;         // in the sum
  };
  struct Own {
    KeyPair sealing;
    Secret masking_secret = make_secret();
    KeyPair masking{masking_secret};
    Secret own = make_secret();
  };

  // As form().
  Result<bool> sum_of_peers(const transport::Key& key, std::span<float> values,
                            const MemberShares& shares, const Own& own);
  void take_mean(const MemberShares& shares, std::span<float> values);
  Result<void> exchange_keys(const transport::Key& key, const MemberShares& shares, const Own& own);
  Result<void> exchange_shares(const transport::Key& key, const MemberShares& shares,
                               const Own& own);
  Result<void> add_up(const transport::Key& key, std::span<float> values,
                      const MemberShares& shares, const Own& own);
  Result<bool> unmask(const transport::Key& key, std::span<float> values);
  Bytes reveals() const;
  // The secret of a peer that is now known to all; nothing if too few shares of it are.
  std::optional<Secret> recovered(size_t peer, std::span<const transport::Delivery> all);
  // The masks with which this peer, which has this key, hides what it sends from these others.
  void add_masks(const Peer& peer, const KeyPair& masking, bool (*with)(const Peer&),
                 std::span<float> values);
  void add_stream(const Secret& secret, bool subtract, std::span<float> values);
  Peer* find(int member);
  // How many shares give a secret.
  size_t needed() const { return peers_.size() / 2 + 1; }
  bool is_enough() const;  // who is in the sum

  transport::Communicator& communicator_;
  ThreadPool& threads_;
  const double timeout_s_;
  std::vector<Peer> peers_;  // of the present sum, ascending by member
  Peer* self_ = nullptr;     // of them, this one; null: it has not given the keys of this process
};

// Clipping and noise ([privacy], docs/federated.md): bounds what a member's contribution to a sum
// tells of its text, to whoever sees it. With probability q it says C(x) + noise, else noise alone,
// all divided by q, so that the expected sum is that of the clipped contributions (McMahan et al.
// 2018, arXiv 1710.06963):
//   C(x) = x min(1, S / |x|)      noise ~ N(0, (z S)^2) for each value
// The sum is formed in fp64, rounded to a grid that depends on the options and the weight alone,
// and then to fp32. The noise is secrets.h's: it differs from run to run, and all replicas
// apply what the commit lists, as always.

// Does nothing for options without clip. `values` are `weight` > 0 times what the member
// contributes, and afterwards `weight` times what it says instead. Throws Error if they are not
// finite.
void make_private(const config::PrivacySection& options, float weight, std::span<float> values,
                  ThreadPool& threads);

}  // namespace thinwire::sync
