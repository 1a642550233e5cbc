#include "thinwire/transport/nats/jetstream.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "thinwire/base/json.h"
#include "thinwire/transport/courier/blob.h"

namespace thinwire::transport {
namespace {

using nlohmann::json;

// err_code of JetStream's errors.
constexpr int64_t kNoPeers = 10005;
constexpr int64_t kUnavailable = 10008;  // there is no leader
constexpr int64_t kNotLeader = 10009;
constexpr int64_t kOtherStore = 10058;
constexpr int64_t kSameSubjects = 10065;
constexpr int64_t kWrongLastSequence = 10071;
constexpr int64_t kNoCluster = 10074;    // and more than one replica
constexpr int64_t kStoreFailed = 10077;  // for any reason, which only the description gives

// The description if the subject's one message is there already.
constexpr std::string_view kSubjectHasOne = "maximum messages per subject exceeded";

constexpr size_t kMaxFailureBytes = 1 << 10;

json store(const std::string& name, const std::string& subject, const StoreLimits& limits) {
  json request = {{"name", name},
                  {"subjects", {subject}},
                  {"storage", "file"},
                  {"retention", "limits"},
                  {"discard", "new"},
                  {"allow_direct", true},
                  {"max_msg_size", kMaxMessageBytes + kMaxHeaderBytes},
                  {"num_replicas", limits.replicas}};
  if (!limits.site.empty()) request["placement"] = {{"tags", {limits.site}}};
  return request;
}

std::string refusal(const json& answer) {
  const json& error = answer["error"];
  const std::string text = error.value("description", "no reason given");
  return fmt::format("the server says: {}", text.substr(0, 200));
}

// Null unless it is a JSON object, or if its error has an unknown shape.
json parse(std::span<const uint8_t> bytes) {
  json answer = try_parse_json<json>({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!answer.is_object()) return nullptr;
  if (!answer.contains("error")) return answer;
  const json& error = answer["error"];
  const bool well_formed = error.is_object() &&
                           (!error.contains("description") || error["description"].is_string()) &&
                           (!error.contains("err_code") || error["err_code"].is_number_integer());
  return well_formed ? answer : json(nullptr);
}

// 0: the answer is no failure, or has no code.
int64_t error_code(const json& answer) {
  const auto error = answer.find("error");
  return error == answer.end() ? 0 : error->value("err_code", int64_t{0});
}

bool says_subject_has_one(const json& answer) {
  return error_code(answer) == kStoreFailed &&
         answer["error"].value("description", "") == kSubjectHasOne;
}

auto no_answer() { return fail(FailureKind::kRefused, "the server's answer is malformed"); }

// "state" of the answer to a question about a store.
Result<json> state_of(std::span<const uint8_t> bytes) {
  json answer = parse(bytes);
  if (answer.is_null()) return no_answer();
  if (answer.contains("error")) return fail(FailureKind::kRefused, refusal(answer));
  const auto state = answer.find("state");
  if (state == answer.end() || !state->is_object()) return no_answer();
  return std::move(*state);
}

Result<uint64_t> number_of_state(std::span<const uint8_t> bytes, const char* field) {
  const Result<json> state = state_of(bytes);
  if (!state) return tl::unexpected(state.error());
  const auto number = state->find(field);
  if (number == state->end() || !number->is_number_unsigned()) return no_answer();
  return number->get<uint64_t>();
}

}  // namespace

std::string chunk_store_request(const NatsSubjects& subjects, const std::string& holder,
                                const StoreLimits& limits) {
  json request =
      store(subjects.chunk_store(holder), subjects.chunk(holder, NatsSubjects::kAllChunks), limits);
  request["max_bytes"] = limits.chunk_bytes;
  // What is stored under a name never changes.
  request["max_msgs_per_subject"] = 1;
  request["discard_new_per_subject"] = true;
  return print_json(request);
}

std::string record_store_request(const NatsSubjects& subjects, const std::string& stream,
                                 const StoreLimits& limits) {
  json request = store(subjects.record_store(stream), subjects.record(stream), limits);
  request["deny_delete"] = true;
  request["deny_purge"] = true;
  request["republish"] = {{"src", subjects.record(stream)},
                          {"dest", subjects.stored_record(stream)}};
  return print_json(request);
}

std::string purge_request(const std::string& subject) {
  return print_json(json{{"filter", subject}});
}

std::string subjects_request(const std::string& subjects) {
  return print_json(json{{"subjects_filter", subjects}});
}

std::string list_request(const std::string& subjects, uint64_t first) {
  return print_json(json{{"subject", subjects}, {"offset", first}});
}

std::string get_request(uint64_t sequence) { return print_json(json{{"seq", sequence}}); }

Result<uint64_t> parse_store_answer(std::span<const uint8_t> bytes) {
  const json answer = parse(bytes);
  if (answer.is_null()) return no_answer();
  if (answer.contains("error")) {
    if (says_subject_has_one(answer)) return 0;
    return fail(
        error_code(answer) == kWrongLastSequence ? FailureKind::kStaleRound : FailureKind::kRefused,
        refusal(answer));
  }
  const auto sequence = answer.find("seq");
  if (sequence == answer.end() || !sequence->is_number_unsigned()) return no_answer();
  return sequence->get<uint64_t>();
}

Result<uint64_t> parse_last_sequence(std::span<const uint8_t> bytes) {
  return number_of_state(bytes, "last_seq");
}

Result<uint64_t> parse_stored_count(std::span<const uint8_t> bytes) {
  return number_of_state(bytes, "messages");
}

Result<std::string> parse_site(std::span<const uint8_t> bytes) {
  const json answer = parse(bytes);
  if (answer.is_null()) return no_answer();
  if (answer.contains("error")) return fail(FailureKind::kRefused, refusal(answer));
  const json::json_pointer tag("/config/placement/tags/0");
  if (!answer.contains(tag) || !answer[tag].is_string()) return "";
  return answer[tag].get<std::string>();
}

Result<ListedStores> parse_listed_stores(std::span<const uint8_t> bytes) {
  const json answer = parse(bytes);
  if (answer.is_null()) return no_answer();
  if (answer.contains("error")) return fail(FailureKind::kRefused, refusal(answer));
  if (!answer.contains("total") || !answer["total"].is_number_unsigned()) return no_answer();
  ListedStores listed{.total = answer["total"].get<uint64_t>()};
  const auto stores = answer.find("streams");
  if (stores == answer.end() || !stores->is_array()) return listed;  // there are none
  const json::json_pointer messages("/state/messages");
  for (const json& one : *stores) {
    if (!one.contains(messages) || !one[messages].is_number_unsigned()) return no_answer();
    listed.messages += one[messages].get<uint64_t>();
    ++listed.stores;
  }
  return listed;
}

Result<std::vector<StoredBlob>> parse_stored_blobs(std::span<const uint8_t> bytes,
                                                   const NatsSubjects& subjects,
                                                   const std::string& holder) {
  const Result<json> state = state_of(bytes);
  if (!state) return tl::unexpected(state.error());
  std::vector<StoredBlob> blobs;
  const auto stored = state->find("subjects");
  if (stored == state->end() || !stored->is_object()) return blobs;  // it has none
  const std::string head = subjects.chunk(holder, "");
  for (const auto& [subject, count] : stored->items()) {  // in the order of subjects
    if (!subject.starts_with(head)) continue;
    const auto key = parse_key(std::string_view(subject).substr(head.size()), '.');
    if (!key) continue;
    if (blobs.empty() || blobs.back().name != key->blob) blobs.push_back({key->blob});
    ++blobs.back().chunks;
  }
  return blobs;
}

Result<StoreMade> parse_made(std::span<const uint8_t> bytes) {
  const json answer = parse(bytes);
  if (answer.is_null()) return no_answer();
  if (!answer.contains("error")) return StoreMade::kMade;
  switch (error_code(answer)) {
    case kOtherStore:
      return StoreMade::kDiffers;
    case kSameSubjects:
      return StoreMade::kOverlaps;
    case kNoPeers:
      return StoreMade::kTooFewServers;
    case kNoCluster:
      return StoreMade::kNoCluster;
    case kUnavailable:
    case kNotLeader:
      return StoreMade::kNotYet;
    default:
      return fail(FailureKind::kRefused, refusal(answer));
  }
}

bool is_unavailable(std::span<const uint8_t> bytes) {
  if (bytes.size() > kMaxFailureBytes) return false;
  const json answer = parse(bytes);
  if (answer.is_null()) return false;
  const int64_t code = error_code(answer);
  return code == kUnavailable || code == kNotLeader;
}

bool is_election_notice(std::span<const uint8_t> bytes) {
  const json notice = parse(bytes);
  return !notice.is_null() && notice.contains("type") &&
         notice["type"] == "io.nats.jetstream.advisory.v1.stream_leader_elected";
}

Result<void> parse_answer(std::span<const uint8_t> bytes) {
  const json answer = parse(bytes);
  if (answer.is_null()) return no_answer();
  if (answer.contains("error")) return fail(FailureKind::kRefused, refusal(answer));
  return {};
}

}  // namespace thinwire::transport
