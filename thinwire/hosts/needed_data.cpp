// What a member has of the data before the first row (fetched_shards.h).
#include <fmt/format.h>

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/secrets.h"
#include "thinwire/base/units.h"
#include "thinwire/hosts/fetched_shards.h"
#include "thinwire/hosts/member_connection.h"
#include "thinwire/hosts/requests.h"

namespace thinwire::hosts {
namespace {

constexpr double kHeadersSeconds = 600;
constexpr double kPartsSeconds = 30;   // for rows, before fewer are asked for at once
constexpr double kRepeatSeconds = 10;  // so that thin lines do not carry answers twice

// Their bytes one after the other, sealed on the way.
Result<Bytes> ask_for_parts(RequestClient& requests, std::span<const FileRange> ranges,
                            double timeout_s) {
  const KeyPair receiver;
  const auto sealed =
      requests.ask(RequestKind::kParts, encode_parts(receiver.key(), ranges), timeout_s);
  if (!sealed) return tl::unexpected(sealed.error());
  return receiver.open(*sealed);
}

// The first bytes of all shards, in the description's order.
std::vector<Bytes> fetch_headers(RequestClient& requests, std::span<const DataFile> shards) {
  std::vector<Bytes> headers;
  while (headers.size() < shards.size()) {
    std::vector<FileRange> ranges;
    for (const DataFile& one : shards.subspan(headers.size())) {
      if (ranges.size() == kMostRanges) break;
      ranges.push_back({one.blob.name, 0, data::kShardHeaderBytes});
    }
    const auto answer = ask_for_parts(requests, ranges, kHeadersSeconds);
    if (!answer) {
      throw Error("the run's data cannot be fetched: " + answer.error().message);
    }
    ByteReader in(*answer);
    for (size_t i = 0; i < ranges.size(); ++i) {
      const auto header = in.get_bytes(data::kShardHeaderBytes);
      headers.emplace_back(header.begin(), header.end());
    }
  }
  return headers;
}

}  // namespace

std::unique_ptr<FetchedShards> fetch_as_needed(MemberConnection& connection, const NeededData& data,
                                               const RunDescription& description,
                                               const Reception& reception,
                                               const events::MessageSink& message) {
  const std::vector<DataFile> files = data_files(description);
  const auto shards = std::span(files).subspan(1);
  receive_headers(data.folder, description, reception,
                  fetch_headers(connection.requests(), shards));
  std::map<fs::path, transport::BlobId> blobs;
  for (const DataFile& one : shards) blobs.emplace(data.folder / one.file, one.blob);
  const auto client =
      std::make_shared<RequestClient>(connection.courier(), data.founder, connection.signer());
  const auto ask = [client](std::span<const FileRange> ranges, const std::atomic<bool>& ends) {
    client->be_patient({.stop = &ends, .repeat_s = kRepeatSeconds});
    return ask_for_parts(*client, ranges, kPartsSeconds);
  };
  auto fetched =
      std::make_unique<FetchedShards>(std::move(blobs), ask, data.cache_bytes, data.stop, message);
  if (const std::string why = differs_from(data.folder, description, fetched.get()); !why.empty()) {
    throw Error(
        fmt::format("{} {}, although it was received from the run", data.folder.string(), why));
  }
  message(fmt::format("fetches rows of the run's {} of data as it needs them",
                      format_bytes(static_cast<double>(description.data_bytes()))));
  return fetched;
}

}  // namespace thinwire::hosts
