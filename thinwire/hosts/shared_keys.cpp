#include "thinwire/hosts/shared_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"

namespace thinwire::hosts {

void make_private_folder(const fs::path& folder) {
  fs::create_directories(folder);
  fs::permissions(folder, fs::perms::owner_all);
}

void store_seed(const fs::path& file, const Seed& seed, NKeyKind kind) {
  write_file(file, encode_seed(kind, seed) + "\n");
}

Seed load_or_make_seed(const fs::path& file, NKeyKind kind) {
  if (!fs::exists(file)) store_seed(file, make_seed(), kind);
  return load_seed(file, kind);
}

Seed load_seed(const fs::path& file, NKeyKind kind) {
  std::string text = read_text_file(file);
  text.erase(text.find_last_not_of(" \n\r\t") + 1);
  const auto seed = decode_seed(kind, text);
  if (!seed) {
    throw Error(fmt::format("{} does not hold the seed of a key, which begins with {}",
                            file.string(), encode_seed(kind, {}).substr(0, 2)));
  }
  return *seed;
}

namespace {

constexpr MessageFormat kFormat{"TWKR", 1, "keys of the run"};
constexpr size_t kMaxEntries = 500;  // of a record, which may have kMaxMessageBytes

// The first entries; the others follow once these have been read back.
void shorten(KeyRing& news) {
  news.tokens.resize(std::min(news.tokens.size(), kMaxEntries));
  news.keys.resize(std::min(news.keys.size(), kMaxEntries - news.tokens.size()));
}

}  // namespace

Bytes encode_shared_keys(const KeyRing& news, const Signer& coordinators) {
  Bytes bytes;
  begin_message(bytes, kFormat);
  ByteWriter(bytes).put_string(print_key_ring(news, -1));
  sign_message(bytes, coordinators);
  return bytes;
}

Result<KeyRing> decode_shared_keys(std::span<const uint8_t> bytes, const PublicKey& coordinators) {
  const Result<SignedMessage> message = open_message(bytes, kFormat);
  if (!message) return tl::unexpected(message.error());
  ByteReader reader(message->content);
  const std::string text = reader.get_string();
  if (!reader.at_end()) return not_a_message(kFormat, "their parts have wrong lengths");
  if (!verify(coordinators, message->signed_part, message->signature)) {
    return not_a_message(kFormat, "another key has signed them");
  }
  try {
    return read_key_ring(text);
  } catch (const std::exception& problem) {
    return not_a_message(kFormat, problem.what());
  }
}

SharedKeys::SharedKeys(transport::Courier& courier, const Signer& coordinators, fs::path run_folder)
    : courier_(courier), coordinators_(coordinators), run_folder_(std::move(run_folder)) {
  reading_ = courier.read(kKeysStream, 1, [inbox = inbox_](uint64_t sequence, Bytes record) {
    const Lock lock(inbox->mutex);
    inbox->records.emplace_back(sequence, std::move(record));
  });
}

bool SharedKeys::serve_pending() {
  if (const uint64_t stamp = key_ring_stamp(run_folder_); stamp != stamp_) {
    stamp_ = stamp;
    own_ = load_key_ring(run_folder_);
  }
  take_in();
  return append_news();
}

void SharedKeys::take_in() {
  std::deque<std::pair<uint64_t, Bytes>> records;
  {
    const Lock lock(inbox_->mutex);
    records.swap(inbox_->records);
  }
  for (const auto& [sequence, bytes] : records) {
    last_ = sequence;
    const Result<KeyRing> news = decode_shared_keys(bytes, coordinators_.key());
    if (news) shared_.merge(*news);
  }
  if (shared_.beyond(own_) == KeyRing{}) return;
  update_key_ring(run_folder_, [this](KeyRing& ring) { ring.merge(shared_); });
  own_.merge(shared_);
}

// If it is refused because another coordinator was faster, it goes again once that was read.
bool SharedKeys::append_news() {
  KeyRing news = own_.beyond(shared_);
  if (news == KeyRing{}) return true;
  {
    const Lock lock(inbox_->mutex);
    if (std::exchange(inbox_->appending, true)) return false;
  }
  shorten(news);
  courier_.append(kKeysStream, last_, encode_shared_keys(news, coordinators_),
                  [inbox = inbox_](const Result<uint64_t>&) {
                    const Lock lock(inbox->mutex);
                    inbox->appending = false;
                  });
  return false;
}

}  // namespace thinwire::hosts
