// Requests to a run's coordinator and its answers: with these a newcomer enrols its key, requests
// the run's status and data, measures its link, and reports its result. Requests are signed with
// the requester's key and answers with the coordinator's, so the server that carries them can
// neither forge nor swap them. docs/formats.md, "Requests and answers".
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"

namespace thinwire::hosts {

// The version of the protocol between the participants of a run. Raised with every incompatible
// change.
inline constexpr uint16_t kProtocolVersion = 2;

// The topic of requests. An answer's topic is the name of the participant that asked.
inline constexpr const char* kRequestTopic = "requests";

enum class RequestKind : uint8_t {
  // Admit the requester's key; body empty, or an enrolment (enrolment.h). Answer: its JWT on a
  // cluster, or empty.
  kEnrol = 1,
  kStatus = 2,  // body empty. Answer: JSON (run_status.h)
  kProbe = 3,  // body: u32 bytes wanted, then padding. Answer: f64 Unix time, padded to that length
  kData = 4,  // store a blob of the description; body: its SHA-256. Answer: empty, once it is there
  kResult = 5,  // body: the requester's summary.json. Answer: empty
  kRecipe = 6,  // body empty. Answer: the recipe as in the run's description
  // Keep what the requester stores on the server of its site; body: the site. Answer: empty
  kPlace = 7,
};

// Made at random; pairs an answer with its request.
using Nonce = std::array<uint8_t, 16>;
Nonce make_nonce();

struct Request {
  RequestKind what = RequestKind::kStatus;
  Nonce nonce{};
  PublicKey run;        // the founding coordinator's
  PublicKey requester;  // who signed it
  Bytes body;
  bool operator==(const Request&) const = default;
};

struct Answer {
  Nonce nonce{};
  bool granted = true;
  Bytes body;  // if refused, text that says why
  bool operator==(const Answer&) const = default;
};

// The key of `requester` must be request.requester.
Bytes encode_request(const Request& request, const Signer& requester);
Bytes encode_answer(const Answer& answer, const Signer& coordinator);

// Total: any bytes give a correctly signed message, or kCorruptPayload with a reason.
Result<Request> decode_request(std::span<const uint8_t> bytes, const PublicKey& run);
Result<Answer> decode_answer(std::span<const uint8_t> bytes, const PublicKey& run);

}  // namespace thinwire::hosts
