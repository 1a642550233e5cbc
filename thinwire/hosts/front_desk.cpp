#include "thinwire/hosts/front_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/transport/nkey.h"

namespace thinwire::hosts {
namespace {

constexpr uint32_t kMostProbeBytes = 192 << 10;
constexpr double kUploadLookSeconds = 0.02;

Bytes bytes_of(std::string_view text) {
  const auto bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

std::shared_ptr<const Bytes> read_bytes(const fs::path& file) {
  const MappedFile mapped(file);
  return std::make_shared<const Bytes>(mapped.bytes().begin(), mapped.bytes().end());
}

}  // namespace

FrontDesk::FrontDesk(transport::Courier& courier, const Signer& coordinator,
                     const std::map<Sha256, fs::path>& files, Duties duties)
    : courier_(courier), files_(files), duties_(std::move(duties)), desk_(courier, coordinator) {}

void FrontDesk::attend(double patience_s) {
  for (const Desk::Visitor& visitor :
       desk_.take(uploads_.empty() ? patience_s : std::min(patience_s, kUploadLookSeconds))) {
    answer(visitor);
  }
  finish_uploads();
}

void FrontDesk::answer(const Desk::Visitor& visitor) {
  switch (visitor.request.what) {
    case Ask::kEnrol:
      return enrol(visitor);
    case Ask::kStatus:
      return desk_.grant(visitor, bytes_of(duties_.status()));
    case Ask::kProbe:
      return answer_probe(visitor);
    case Ask::kData:
      return provide(visitor);
    case Ask::kResult:
      return take_result(visitor);
    case Ask::kRecipe:
      return desk_.grant(visitor, bytes_of(duties_.recipe()));
  }
}

// The server lets nobody speak under another's name, so the name says which token it is.
void FrontDesk::enrol(const Desk::Visitor& visitor) {
  const auto token = transport::decode_public_key(transport::NKeyKind::kUser, visitor.name);
  if (!token) return;
  const std::string why_not = duties_.enrol(*token, visitor.request.asker);
  if (!why_not.empty()) return desk_.refuse(visitor, why_not);
  desk_.grant(visitor, {});
}

void FrontDesk::answer_probe(const Desk::Visitor& visitor) {
  ByteReader in(visitor.request.body);
  const auto wanted = in.get<uint32_t>();
  if (!in.ok() || wanted > kMostProbeBytes) {
    return desk_.refuse(visitor, fmt::format("a probe asks for at most {} bytes", kMostProbeBytes));
  }
  Bytes body;
  ByteWriter(body).put(unix_seconds());
  body.resize(std::max<size_t>(body.size(), wanted));
  desk_.grant(visitor, std::move(body));
}

// Data goes to the store only when somebody asks for it: members may all have it.
void FrontDesk::provide(const Desk::Visitor& visitor) {
  ByteReader in(visitor.request.body);
  Sha256 name;
  const auto raw = in.get_bytes(name.bytes.size());
  if (in.at_end()) std::ranges::copy(raw, name.bytes.begin());
  const auto file = files_.find(name);
  if (!in.at_end() || file == files_.end()) {
    return desk_.refuse(visitor, "this is not a file of the run's data");
  }
  if (provided_.contains(name)) return desk_.grant(visitor, {});
  const auto under_way = std::ranges::find(uploads_, name, &Upload::name);
  if (under_way != uploads_.end()) return under_way->visitors.push_back(visitor);
  Upload& upload = uploads_.emplace_back(Upload{name, {}, {visitor}});
  courier_.put(read_bytes(file->second), transport::Priority::kBulk, upload.stored.setter());
}

void FrontDesk::finish_uploads() {
  for (auto upload = uploads_.begin(); upload != uploads_.end();) {
    if (!upload->stored.ready()) {
      ++upload;
      continue;
    }
    const Result<void> stored = upload->stored.wait(nullptr);
    if (stored) provided_.insert(upload->name);
    for (const Desk::Visitor& visitor : upload->visitors) {
      if (stored) {
        desk_.grant(visitor, {});
      } else {
        desk_.refuse(visitor, "the store does not take the data: " + stored.error().message);
      }
    }
    upload = uploads_.erase(upload);
  }
}

void FrontDesk::take_result(const Desk::Visitor& visitor) {
  const Bytes& body = visitor.request.body;
  try {
    duties_.result(visitor.request.asker,
                   events::parse_summary({reinterpret_cast<const char*>(body.data()), body.size()},
                                         "the member's result"));
  } catch (const Error& problem) {
    return desk_.refuse(visitor, problem.what());
  }
  desk_.grant(visitor, {});
}

}  // namespace thinwire::hosts
