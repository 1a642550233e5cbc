#include "thinwire/hosts/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/signature.h"

namespace thinwire::hosts {
namespace {

constexpr MessageFormat kRequest{"TWRQ", kProtocolVersion, "a request"};
constexpr MessageFormat kAnswer{"TWAN", kProtocolVersion, "an answer"};
constexpr const char* kMalformed = "its fields are not those of its kind";
constexpr const char* kForged = "it does not have the expected signature";

template <size_t size>
std::array<uint8_t, size> get_array(ByteReader& in) {
  std::array<uint8_t, size> out{};
  const auto raw = in.get_bytes(size);
  if (raw.size() == size) std::ranges::copy(raw, out.begin());
  return out;
}

Bytes rest(ByteReader& in) {
  const auto raw = in.get_bytes(in.remaining());
  return {raw.begin(), raw.end()};
}

}  // namespace

Nonce make_nonce() {
  const Seed random = make_seed();
  Nonce nonce;
  std::copy_n(random.begin(), nonce.size(), nonce.begin());
  return nonce;
}

Bytes encode_request(const Request& request, const Signer& requester) {
  Bytes bytes;
  ByteWriter out(bytes);
  begin_message(bytes, kRequest);
  out.put(static_cast<uint8_t>(request.what));
  out.put_bytes(request.nonce);
  out.put_bytes(request.run.bytes);
  out.put_bytes(request.requester.bytes);
  out.put_bytes(request.body);
  sign_message(bytes, requester);
  return bytes;
}

Bytes encode_answer(const Answer& answer, const Signer& coordinator) {
  Bytes bytes;
  ByteWriter out(bytes);
  begin_message(bytes, kAnswer);
  out.put(static_cast<uint8_t>(answer.granted));
  out.put_bytes(answer.nonce);
  out.put_bytes(answer.body);
  sign_message(bytes, coordinator);
  return bytes;
}

Result<Request> decode_request(std::span<const uint8_t> bytes, const PublicKey& run) {
  const auto message = open_message(bytes, kRequest);
  if (!message) return tl::unexpected(message.error());
  ByteReader in(message->content);
  Request request;
  const auto what = in.get<uint8_t>();
  request.what = static_cast<RequestKind>(what);
  request.nonce = get_array<sizeof(Nonce)>(in);
  request.run.bytes = get_array<32>(in);
  request.requester.bytes = get_array<32>(in);
  request.body = rest(in);
  const bool known = what >= static_cast<uint8_t>(RequestKind::kEnrol) &&
                     what <= static_cast<uint8_t>(RequestKind::kParts);
  if (!in.ok() || !known) return not_a_message(kRequest, kMalformed);
  if (request.run != run || !verify(request.requester, message->signed_part, message->signature)) {
    return not_a_message(kRequest, kForged);
  }
  return request;
}

Result<Answer> decode_answer(std::span<const uint8_t> bytes, const PublicKey& run) {
  const auto message = open_message(bytes, kAnswer);
  if (!message) return tl::unexpected(message.error());
  ByteReader in(message->content);
  Answer answer;
  const auto granted = in.get<uint8_t>();
  answer.granted = granted == 1;
  answer.nonce = get_array<sizeof(Nonce)>(in);
  answer.body = rest(in);
  if (!in.ok() || granted > 1) return not_a_message(kAnswer, kMalformed);
  if (!verify(run, message->signed_part, message->signature)) {
    return not_a_message(kAnswer, kForged);
  }
  return answer;
}

namespace {

constexpr double kLookSeconds = 0.5;  // between looks at whether to stop

}  // namespace

RequestServer::RequestServer(transport::Courier& courier, const Signer& coordinator)
    : courier_(courier), coordinator_(coordinator) {
  subscription_ = courier.subscribe(
      "", kRequestTopic,
      [this](const std::string& from, const Bytes& statement) { receive(from, statement); });
}

void RequestServer::receive(const std::string& from, const Bytes& statement) {
  Result<Request> request = decode_request(statement, coordinator_.key());
  if (!request) return;
  const Lock lock(mutex_);
  const bool repeated = std::ranges::any_of(waiting_, [&](const IncomingRequest& incoming) {
    return incoming.request.nonce == request->nonce;
  });
  if (repeated || waiting_.size() >= kMaxWaiting) return;
  waiting_.push_back({from, std::move(*request)});
  arrived_.notify_one();
}

std::vector<RequestServer::IncomingRequest> RequestServer::take(double timeout_s) {
  const Lock lock(mutex_);
  arrived_.wait_for(mutex_, std::chrono::duration<double>(timeout_s),
                    [&]() REQUIRES(mutex_) { return !waiting_.empty(); });
  std::vector<IncomingRequest> all(std::make_move_iterator(waiting_.begin()),
                                   std::make_move_iterator(waiting_.end()));
  waiting_.clear();
  return all;
}

void RequestServer::grant(const IncomingRequest& incoming, Bytes body) {
  answer(incoming, {incoming.request.nonce, true, std::move(body)});
}

void RequestServer::refuse(const IncomingRequest& incoming, const std::string& why) {
  const auto text = as_bytes(why);
  answer(incoming, {incoming.request.nonce, false, Bytes(text.begin(), text.end())});
}

void RequestServer::answer(const IncomingRequest& incoming, const Answer& answer) {
  courier_.publish(incoming.name, encode_answer(answer, coordinator_));
}

RequestClient::RequestClient(transport::Courier& courier, const PublicKey& run, const Signer& own)
    : courier_(courier), run_(run), own_(own) {
  subscription_ =
      courier.subscribe("", courier.self(),
                        [this](const std::string&, const Bytes& statement) { receive(statement); });
}

void RequestClient::receive(const Bytes& statement) {
  Result<Answer> answer = decode_answer(statement, run_);
  if (!answer) return;
  const Lock lock(mutex_);
  const auto question = questions_.find(answer->nonce);
  if (question == questions_.end() || question->second.answer) return;
  question->second.answer = std::move(*answer);
  answered_.notify_all();
}

bool RequestClient::await(double seconds) {
  const Lock lock(mutex_);
  const auto is_over = [&]() REQUIRES(mutex_) {
    return std::ranges::all_of(questions_,
                               [](const auto& one) { return one.second.answer.has_value(); });
  };
  return answered_.wait_for(mutex_, std::chrono::duration<double>(seconds), is_over);
}

void RequestClient::send_unanswered() {
  std::vector<Bytes> statements;
  {
    const Lock lock(mutex_);
    for (const auto& [nonce, question] : questions_) {
      if (!question.answer) statements.push_back(question.statement);
    }
  }
  for (Bytes& statement : statements) courier_.publish(kRequestTopic, std::move(statement));
}

Result<Bytes> RequestClient::ask(RequestKind what, Bytes body, double timeout_s) {
  std::vector<Bytes> bodies;
  bodies.push_back(std::move(body));
  auto answers = ask_all(what, std::move(bodies), timeout_s);
  if (!answers) return tl::unexpected(answers.error());
  return std::move(answers->front());
}

Result<std::vector<Bytes>> RequestClient::ask_all(RequestKind what, std::vector<Bytes> bodies,
                                                  double timeout_s) {
  std::vector<Nonce> nonces;
  {
    const Lock lock(mutex_);
    questions_.clear();
    for (Bytes& body : bodies) {
      nonces.push_back(make_nonce());
      const Request request{what, nonces.back(), run_, own_.key(), std::move(body)};
      questions_[nonces.back()].statement = encode_request(request, own_);
    }
  }
  const Stopwatch watch;
  double sends_at = 0;
  const double patience_s = std::max(timeout_s, patience_.wait_s);
  bool answered = false;
  bool waits = false;
  while (!answered && watch.seconds() < patience_s) {
    if (stopped()) return fail(FailureKind::kAborted, "it was interrupted");
    if (std::string why = courier_.denied(); !why.empty()) {
      return fail(FailureKind::kRefused, std::move(why));
    }
    if (!waits && watch.seconds() >= timeout_s) {
      waits = true;
      if (patience_.begins) patience_.begins();
    }
    if (watch.seconds() >= sends_at) {
      send_unanswered();
      sends_at = watch.seconds() + std::min(patience_.repeat_s, timeout_s);
    }
    answered = await(std::min(kLookSeconds, timeout_s));
  }
  const Lock lock(mutex_);
  std::vector<Bytes> answers;
  for (const Nonce& nonce : nonces) {
    std::optional<Answer>& answer = questions_.at(nonce).answer;
    if (!answer) {
      return fail(FailureKind::kDeadline,
                  fmt::format("the run's coordinator did not answer within {:g} s", patience_s));
    }
    if (!answer->granted) {
      return fail(FailureKind::kRefused, std::string(answer->body.begin(), answer->body.end()));
    }
    answers.push_back(std::move(answer->body));
  }
  return answers;
}

}  // namespace thinwire::hosts
