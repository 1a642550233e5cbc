#include "thinwire/hosts/final_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "thinwire/base/bytes.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/threads.h"
#include "thinwire/base/units.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/checkpoint_collector.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/hosts/run_data.h"
#include "thinwire/hosts/store_need.h"
#include "thinwire/hosts/waiting.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/train/params_digest.h"

namespace thinwire::hosts {
namespace {

constexpr const char* kWeightsFile = "weights.safetensors";
constexpr const char* kBestFile = "best/weights.safetensors";  // of the list
constexpr const char* kReceivedFolder = "final";               // of the server's folder
constexpr const char* kWhat = "the final weights";
constexpr double kPollSeconds = 1;  // between a member's questions how far the coordinator is
// A member that stores its weights says so this often within the time for an answer; one that was
// silent for twice that time does not offer them any more.
constexpr double kSayings = 3;
// All members together have at least so long to store them, and longer for a large file.
constexpr double kLeastSeconds = 600;
constexpr double kLeastRate = 10e3;  // bytes a second
constexpr uint64_t kListBytesOfPart = 1 << 10;
constexpr int64_t kKept = 2;  // checkpoints: the best and the last one

Bytes encode_list(const transport::BlobId& list) {
  Bytes body;
  ByteWriter out(body);
  out.put_bytes(list.name.bytes);
  out.put(list.bytes);
  return body;
}

std::optional<transport::BlobId> decode_list(std::span<const uint8_t> body) {
  ByteReader in(body);
  transport::BlobId list;
  const auto name = in.get_bytes(list.name.bytes.size());
  list.bytes = in.get<uint64_t>();
  if (!in.at_end()) return std::nullopt;
  std::ranges::copy(name, list.name.bytes.begin());
  return list;
}

// A member that offers its weights. All functions throw Error if that fails or is interrupted.
class Giver {
 public:
  Giver(transport::Courier& courier, RequestClient& requests, const WeightsOffer& offer)
      : courier_(courier), requests_(requests), offer_(offer) {
    requests_.be_patient({.stop = offer_.stop});
  }

  void give() {
    const auto checkpoint = checkpoint::newest_checkpoint(offer_.run_folder / "checkpoints");
    if (!checkpoint) throw Error("this member has no checkpoint");
    std::vector<NamedFile> files = {{kWeightsFile, *checkpoint / kWeightsFile}};
    const fs::path best = offer_.run_folder / checkpoint::kBestLink;
    if (fs::exists(best) && !fs::equivalent(best, *checkpoint)) {
      files.push_back({kBestFile, best / kWeightsFile});
    }
    const DescribedBase described = describe_files(offer_.digest, files);
    offer_.message(fmt::format("gives the coordinator {}{}: {}", kWhat,
                               files.size() > 1 ? " and the best ones" : "",
                               format_bytes(static_cast<double>(described.bytes()))));
    for (const auto& [name, part] : file_parts(described, files)) store(read_part(part, name));
    const Bytes list = encode_list(store(encode_base(described)));
    WeightsAnswer answer = ask(list);
    for (; answer == WeightsAnswer::kReceiving; answer = ask(list)) sleep(kPollSeconds);
    if (answer != WeightsAnswer::kKept) throw Error("it does not want them any more");
  }

 private:
  WeightsAnswer ask(Bytes body) {
    said_ = Stopwatch();
    const auto answer = requests_.ask(RequestKind::kWeights, std::move(body), offer_.answer_s);
    if (!answer) throw Error(answer.error().message);
    if (answer->size() != 1) throw Error("the coordinator's answer is malformed");
    return static_cast<WeightsAnswer>(answer->front());
  }

  void say_that_it_stores() {
    if (said_.seconds() < offer_.answer_s / kSayings) return;
    if (ask({}) != WeightsAnswer::kWanted) throw Error("it does not want them any more");
  }

  transport::BlobId store(Bytes bytes) {
    Waiting<void> stored;
    const transport::BlobId id = courier_.put(std::make_shared<const Bytes>(std::move(bytes)),
                                              transport::Priority::kBulk, stored.setter());
    while (true) {
      say_that_it_stores();
      const Result<void> result = stored.wait_for(kPollSeconds, offer_.stop);
      if (result) return id;
      if (result.error().kind == FailureKind::kAborted) throw Error(result.error().message);
      if (!stored.answered()) continue;
      throw Error("the store does not accept them: " + result.error().message);
    }
  }

  void sleep(double seconds) const {
    const Result<void> ended = Waiting<void>().wait_for(seconds, offer_.stop);
    if (ended.error().kind == FailureKind::kAborted) throw Error(ended.error().message);
  }

  transport::Courier& courier_;
  RequestClient& requests_;
  const WeightsOffer& offer_;
  Stopwatch said_;
};

// Text of a member's, or of files that are from it, as one line for the terminal.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return text;
}

}  // namespace

RunWeights weights_of(const membership::State& finished, uint64_t digest, bool keeps_best) {
  RunWeights weights{.last = {finished.next_step, digest}, .best = {}};
  const membership::Evaluated& evaluated = finished.evaluated;
  if (keeps_best && evaluated.best_step == finished.next_step) {
    weights.best = weights.last;
  } else if (keeps_best && evaluated.best_digest) {
    weights.best = {evaluated.best_step, *evaluated.best_digest};
  }
  return weights;
}

void offer_weights(transport::Courier& courier, RequestClient& requests,
                   const WeightsOffer& offer) {
  try {
    Giver(courier, requests, offer).give();
  } catch (const std::exception& problem) {
    offer.message(fmt::format("the coordinator did not get {} from this member: {}", kWhat,
                              plain_message(problem)));
  }
}

// A base that merges have changed is no part of what the digest is of.
WeightsReception::WeightsReception(transport::Courier& courier, const ServedRun& run,
                                   WaitLimits patience, events::MessageSink message)
    : courier_(courier),
      run_(run),
      patience_(std::move(patience)),
      message_(std::move(message)),
      most_bytes_(static_cast<uint64_t>(weights_file_bytes(run.recipe))),
      possible_(!method::facts_of(run.recipe.adapter).merges) {}

WeightsReception::~WeightsReception() { end(); }

void WeightsReception::end() {
  stop_ = true;
  if (thread_.joinable()) join();
  stop_ = false;
}

void WeightsReception::join() {
  thread_.join();
  if (failure_.empty()) kept_ = expected_.last.digest;
  message_(kept_ ? fmt::format("{} are in {}", kWhat, run_.recipe.run.dir)
                 : fmt::format("{} of the member with key {} are not kept: {}", kWhat,
                               key_id(offered_->member), failure_));
}

bool WeightsReception::busy(double now) {
  if (thread_.joinable() && ended_) {
    join();
    untold_ = now;
  }
  if (asked_ && now - heard_at_ >= hearing_s()) asked_.reset();
  if (untold_ && now - *untold_ >= hearing_s()) untold_.reset();
  return thread_.joinable() || asked_ || untold_;
}

WeightsAnswer WeightsReception::reported(const PublicKey& member, double now) {
  (void)busy(now);
  const double limit_s = kLeastSeconds + static_cast<double>(most_bytes_) / kLeastRate;
  const bool late = first_asked_ && now - *first_asked_ >= limit_s;
  if (!possible_ || kept_ || late || thread_.joinable() || (asked_ && asked_ != member)) {
    return WeightsAnswer::kNotWanted;
  }
  if (!first_asked_) first_asked_ = now;
  asked_ = member;
  heard_at_ = now;
  return WeightsAnswer::kWanted;
}

Result<WeightsAnswer> WeightsReception::answer(const Request& request,
                                               const std::optional<RunWeights>& weights,
                                               double now) {
  (void)busy(now);
  if (request.body.empty()) {
    return asked_ == request.requester ? reported(request.requester, now)
                                       : WeightsAnswer::kNotWanted;
  }
  const auto list = decode_list(request.body);
  if (!list || list->bytes > 2 * kListBytesOfPart * (2 + most_bytes_ / kMaxPartBytes)) {
    return fail(FailureKind::kRefused, "this is not the name of a list of parts");
  }
  const Offered offered{request.requester, *list};
  if (offered_ == offered) {
    if (thread_.joinable()) return WeightsAnswer::kReceiving;
    untold_.reset();
    if (kept_) return WeightsAnswer::kKept;
    return fail(FailureKind::kRefused, failure_);
  }
  // A coordinator that was started again takes what was stored meanwhile.
  const bool others = thread_.joinable() || (asked_ && asked_ != request.requester);
  if (!possible_ || kept_ || others || !weights) return WeightsAnswer::kNotWanted;
  begin(offered, *weights);
  return WeightsAnswer::kReceiving;
}

void WeightsReception::begin(const Offered& offered, const RunWeights& weights) {
  asked_.reset();
  offered_ = offered;
  expected_ = weights;
  ended_ = false;
  failure_.clear();
  thread_ = std::thread([this] {
    try {
      receive(*offered_, expected_);
    } catch (const std::exception& problem) {
      failure_ = one_line(plain_message(problem));
    }
    std::error_code left;
    fs::remove_all(received_folder(), left);
    ended_ = true;
  });
}

fs::path WeightsReception::received_folder() const {
  return fs::path(run_.recipe.run.dir) / kServerFolder / kReceivedFolder;
}

void WeightsReception::receive(const Offered& offered, const RunWeights& weights) const {
  const auto fetch = [&](const transport::BlobId& blob) {
    return fetch_blob(courier_, kWhat, blob, offered.member, patience_, &stop_);
  };
  const Result<DescribedBase> list = decode_base(fetch(offered.list));
  if (!list) throw Error(list.error().message);
  const bool has_best = list->files.size() == 2 && list->files.back().name == kBestFile;
  if (list->files.front().name != kWeightsFile || list->files.size() > (has_best ? 2 : 1) ||
      list->bytes() > list->files.size() * most_bytes_) {
    throw Error("the list is of another file than one with the run's weights");
  }
  if (list->digest != weights.last.digest) {
    throw Error(fmt::format("their digest is {}, and the run's {}", to_hex(list->digest),
                            to_hex(weights.last.digest)));
  }
  // The file, and its copy in the checkpoint.
  const std::optional<uint64_t> room = free_disk_bytes(run_.recipe.run.dir);
  if (room && *room < 2 * list->bytes()) {
    throw Error(fmt::format("they take {} twice, and the disk of {} has only {} free",
                            format_bytes(static_cast<double>(list->bytes())), run_.recipe.run.dir,
                            format_bytes(static_cast<double>(*room))));
  }
  fs::remove_all(received_folder());
  fs::create_directories(received_folder());
  const fs::path folder = received_folder() / "weights";
  receive_base(folder, *list, {.fetch = fetch, .progress = {}}, kWhat, "");
  check(folder / kWeightsFile, weights.last.digest);
  const bool takes_best = has_best && weights.best && weights.best != weights.last &&
                          is_right(folder / kBestFile, weights.best->digest);
  if (stop_) throw Error("it was interrupted");
  if (takes_best) keep(folder / kBestFile, weights.best->steps);
  keep(folder / kWeightsFile, weights.last.steps);
  tell_best(weights, takes_best);
  const std::string holder = participant_name(offered.member);
  courier_.drop(offered.list.name, holder, [](const Result<void>&) {});
  for (const DescribedFile& file : list->files) {
    for (const transport::BlobId& part : file.parts) {
      courier_.drop(part.name, holder, [](const Result<void>&) {});
    }
  }
}

void WeightsReception::check(const fs::path& weights, uint64_t digest) const {
  const tensor::Layout layout(method::tensors_of(run_.recipe));
  tensor::Arena values(layout, method::trained_format(run_.recipe));
  const tensor::SafetensorsReader reader(weights);
  const checkpoint::TensorFiles files = checkpoint::tensors_of(reader);
  checkpoint::check_weights(weights, files, layout.specs());
  checkpoint::read_weights(files, values);
  ThreadPool threads(1);
  const uint64_t own = train::bytes_digest(std::as_const(values).bytes(), threads);
  if (own == digest) return;
  throw Error(fmt::format("their digest is {}, and the run's {}", to_hex(own), to_hex(digest)));
}

// The link of a member that was away may be to weights that were the best before.
bool WeightsReception::is_right(const fs::path& weights, uint64_t digest) const {
  try {
    check(weights, digest);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// A member that came later, or was away, may not have the best ones.
void WeightsReception::tell_best(const RunWeights& weights, bool received) const {
  if (!weights.best) return;
  if (received || weights.best == weights.last) {
    return checkpoint::link_best(checkpoints(), static_cast<int64_t>(weights.best->steps));
  }
  message_(fmt::format(
      "the best weights, those after step {}, are in the folders of members that were there then: "
      "the member with key {} does not have them",
      weights.best->steps, key_id(offered_->member)));
}

void WeightsReception::keep(const fs::path& weights, uint64_t steps) const {
  const config::Recipe& recipe = run_.recipe;
  const fs::path run = recipe.run.dir;
  checkpoint::CheckpointWriter writer(checkpoints(), steps);
  writer.add_file(weights);
  writer.add_text(checkpoint::kRecipeFile, config::print_recipe(recipe));
  if (run_.description.vocabulary) {
    const auto vocabulary = data::Vocabulary::load(recipe.data.dir);
    writer.add_text(vocabulary->stored_name(), vocabulary->stored_text());
  }
  if (run_.description.model_files) writer.add_file(run / kModelFiles);
  if (run_.description.base) {
    writer.add_text(
        checkpoint::kAdapterBaseFile,
        checkpoint::print_adapter_base({run_.description.base->digest, recipe.train.init}));
  }
  writer.commit({.step = steps, .run = run_.description.founding.run, .method = {}}, kKept);
}

void WeightsReception::discard() {
  kept_.reset();
  fs::remove_all(checkpoints());
  fs::remove(fs::path(run_.recipe.run.dir) / checkpoint::kBestLink);
}

}  // namespace thinwire::hosts
