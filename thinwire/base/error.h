// Errors are of two kinds. Exceptions are for local failures: a bad recipe, a full disk, a damaged
// file. Result is for failures of the network or of peers that a correct program must expect: a
// lost peer, a missed deadline, a corrupt payload, a stale round.
#pragma once

#include <exception>
#include <string>
#include <tl/expected.hpp>

#include "thinwire/error.h"

namespace thinwire {

// Why an operation over the network failed.
enum class FailureKind {
  kLostPeer,
  kDeadline,
  kCorruptPayload,
  kStaleRound,
  kAborted,
  kRefused,  // by the other side: not allowed, too large, no space
};

struct Failure {
  FailureKind kind;
  std::string message;
};

template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Failure> {
 public:
  using tl::expected<T, Failure>::expected;
};

inline tl::unexpected<Failure> fail(FailureKind kind, std::string message) {
  return tl::unexpected<Failure>(Failure{kind, std::move(message)});
}

// The message of an exception, made readable. Our own errors are written for users; those of
// std::filesystem ("filesystem error: cannot create directories: Not a directory [a/b]") and of the
// allocator ("std::bad_alloc") are not.

// "cannot create folder a/b: Not a directory"; "not enough memory"; otherwise what().
std::string plain_message(const std::exception& error);

}  // namespace thinwire
