#include "thinwire/hosts/final_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/threads.h"
#include "thinwire/base/units.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/hosts/run_data.h"
#include "thinwire/hosts/waiting.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/train/params_digest.h"

namespace thinwire::hosts {
namespace {

constexpr const char* kWeightsFile = "weights.safetensors";
constexpr const char* kReceivedFolder = "final";  // of the server's folder
constexpr const char* kWhat = "the final weights";
constexpr uint64_t kMostListBytes = 64 << 20;
constexpr double kPollSeconds = 1;  // between a member's questions how far the coordinator is
// A member that stores its weights asks this often within the time for an answer whether they are
// still wanted; one that has not asked for twice that time does not offer them any more.
constexpr double kQuestions = 3;
// What a safetensors file has besides its values.
constexpr uint64_t kHeaderBytes = 1 << 16;
constexpr uint64_t kHeaderBytesOfTensor = 1 << 10;
constexpr std::chrono::milliseconds kPause(100);

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
      : courier_(courier), requests_(requests), offer_(offer) {}

  void give() {
    if (ask({}) != WeightsAnswer::kWanted) return;
    const auto checkpoint = checkpoint::newest_checkpoint(offer_.run_folder / "checkpoints");
    if (!checkpoint) throw Error("this member has no checkpoint");
    const std::vector<fs::path> files = {*checkpoint / kWeightsFile};
    const DescribedBase described = describe_base(offer_.digest, files);
    offer_.message(fmt::format("gives the coordinator {}: {}", kWhat,
                               format_bytes(static_cast<double>(described.bytes()))));
    for (const auto& [name, part] : base_parts(described, *checkpoint)) {
      store(read_part(part, name));
    }
    const Bytes list = encode_list(store(encode_base(described)));
    while (ask(list) == WeightsAnswer::kReceiving) sleep(kPollSeconds);
  }

 private:
  WeightsAnswer ask(Bytes body) {
    const auto answer = requests_.ask(RequestKind::kWeights, std::move(body), offer_.answer_s);
    if (!answer) throw Error(answer.error().message);
    if (answer->size() != 1) throw Error("the coordinator's answer is malformed");
    return static_cast<WeightsAnswer>(answer->front());
  }

  transport::BlobId store(Bytes bytes) {
    Waiting<void> stored;
    const transport::BlobId id = courier_.put(std::make_shared<const Bytes>(std::move(bytes)),
                                              transport::Priority::kBulk, stored.setter());
    while (true) {
      const Result<void> result = stored.wait_for(offer_.answer_s / kQuestions, offer_.stop);
      if (result) return id;
      if (result.error().kind == FailureKind::kAborted) throw Error(result.error().message);
      if (stored.answered())
        throw Error("the store does not accept them: " + result.error().message);
      if (ask({}) != WeightsAnswer::kWanted) throw Error("another member was faster");
    }
  }

  void sleep(double seconds) {
    for (const Stopwatch watch; watch.seconds() < seconds;) {
      if (offer_.stop != nullptr && *offer_.stop) throw Error("it was interrupted");
      std::this_thread::sleep_for(kPause);
    }
  }

  transport::Courier& courier_;
  RequestClient& requests_;
  const WeightsOffer& offer_;
};

// Throws Error unless the list can be that of the file with the recipe's weights.
void check_list(const DescribedBase& list, const config::Recipe& recipe) {
  const std::vector<TensorSpec> tensors = method::tensors_of(recipe);
  const auto most =
      static_cast<uint64_t>(method::weight_bytes(tensors, method::trained_format(recipe))) +
      kHeaderBytes + kHeaderBytesOfTensor * tensors.size();
  if (list.files.size() != 1 || list.files.front().name != kWeightsFile) {
    throw Error("it lists other files");
  }
  if (list.bytes() <= most) return;
  throw Error(fmt::format("its file has {}, which is too much for this model",
                          format_bytes(static_cast<double>(list.bytes()))));
}

}  // namespace

void offer_weights(transport::Courier& courier, RequestClient& requests,
                   const WeightsOffer& offer) {
  try {
    Giver(courier, requests, offer).give();
  } catch (const Error& problem) {
    offer.message(
        fmt::format("the coordinator did not get {} from this member: {}", kWhat, problem.what()));
  }
}

WeightsReception::WeightsReception(transport::Courier& courier, const ServedRun& run,
                                   const Patience& patience, events::MessageSink message)
    : courier_(courier), run_(run), patience_(patience), message_(std::move(message)) {}

WeightsReception::~WeightsReception() { end_thread(); }

void WeightsReception::end_thread() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  stop_ = false;
}

// A base that merges have changed is no part of what the digest is of.
bool WeightsReception::wanted() const {
  return !kept_ && !method::find_adapter(run_.recipe.adapter.kind).merges;
}

double WeightsReception::hearing_s() const { return 2 * patience_.answer_s; }

void WeightsReception::take_end(double now) {
  if (!thread_.joinable() || !ended_) return;
  thread_.join();
  kept_ = failure_.empty();
  untold_ = now;
  message_(kept_ ? fmt::format("{} are in {}", kWhat, run_.recipe.run.dir)
                 : fmt::format("{} of the member with key {} are not kept: {}", kWhat,
                               key_id(offered_->member), failure_));
}

void WeightsReception::expect(double now) {
  if (wanted()) expected_ = now;
}

bool WeightsReception::busy(double now) {
  take_end(now);
  if (expected_ && now - *expected_ >= hearing_s()) expected_.reset();
  if (asked_ && now - asked_at_ >= hearing_s()) asked_.reset();
  if (untold_ && now - *untold_ >= hearing_s()) untold_.reset();
  return thread_.joinable() || expected_ || asked_ || untold_;
}

Result<WeightsAnswer> WeightsReception::answer(const Request& request,
                                               std::optional<uint64_t> digest, double now) {
  expected_.reset();
  const bool others = busy(now) && asked_ != request.requester;
  if (request.body.empty()) {
    if (!wanted() || !digest || others) return WeightsAnswer::kNotWanted;
    asked_ = request.requester;
    asked_at_ = now;
    return WeightsAnswer::kWanted;
  }
  const auto list = decode_list(request.body);
  if (!list || list->bytes > kMostListBytes) {
    return fail(FailureKind::kRefused, "this is not the name of a list");
  }
  const Offered offered{request.requester, *list};
  if (offered_ == offered) {
    if (thread_.joinable()) return WeightsAnswer::kReceiving;
    untold_.reset();
    if (kept_) return WeightsAnswer::kKept;
    return fail(FailureKind::kRefused, failure_);
  }
  if (others || !asked_ || !digest) return WeightsAnswer::kNotWanted;
  asked_.reset();
  offered_ = offered;
  ended_ = false;
  failure_.clear();
  thread_ = std::thread([this, offered, expected = *digest] {
    try {
      receive(offered, expected);
    } catch (const std::exception& problem) {
      failure_ = plain_message(problem);
    }
    ended_ = true;
  });
  return WeightsAnswer::kReceiving;
}

void WeightsReception::receive(const Offered& offered, uint64_t digest) {
  const std::string holder = participant_name(offered.member);
  const auto fetch = [&](const transport::BlobId& blob) {
    return fetch_blob(courier_, kWhat, blob, offered.member, patience_, &stop_);
  };
  const Result<DescribedBase> list = decode_base(fetch(offered.list));
  if (!list) throw Error(list.error().message);
  check_list(*list, run_.recipe);
  const fs::path folder = fs::path(run_.recipe.run.dir) / kServerFolder / kReceivedFolder;
  fs::remove_all(folder);
  receive_base(folder, *list, {.fetch = fetch, .progress = {}}, kWhat, "");
  keep(folder / kWeightsFile, digest);
  fs::remove_all(folder);
  courier_.drop(offered.list.name, holder, [](const Result<void>&) {});
  for (const transport::BlobId& part : list->files.front().parts) {
    courier_.drop(part.name, holder, [](const Result<void>&) {});
  }
}

void WeightsReception::keep(const fs::path& weights, uint64_t digest) const {
  const config::Recipe& recipe = run_.recipe;
  const fs::path run = recipe.run.dir;
  {
    const tensor::Layout layout(method::tensors_of(recipe));
    tensor::Arena values(layout, method::trained_format(recipe));
    const tensor::SafetensorsReader reader(weights);
    const checkpoint::TensorFiles files = checkpoint::tensors_of(reader);
    checkpoint::check_weights(weights, files, layout.specs());
    checkpoint::read_weights(files, values);
    ThreadPool threads(1);
    const uint64_t own = train::bytes_digest(std::as_const(values).bytes(), threads);
    if (own != digest) {
      throw Error(fmt::format("their digest is {}, and the run's {}", to_hex(own), to_hex(digest)));
    }
  }
  const auto steps = static_cast<uint64_t>(recipe.train.steps);
  checkpoint::CheckpointWriter writer(run / "checkpoints", steps);
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
  writer.commit({.step = steps, .run = run_.description.founding.run, .method = {}}, 1);
}

}  // namespace thinwire::hosts
