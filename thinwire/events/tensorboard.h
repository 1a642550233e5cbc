// Event files for TensorBoard: scalars only, written without TensorFlow or protobuf.
// A file is a sequence of TFRecords (u64 length, u32 masked CRC32C of the length, payload, u32
// masked CRC32C of the payload), each one protobuf message tensorflow.Event; see
// tensorflow/core/util/event.proto.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/file.h"

namespace thinwire::events {

// Writes one new event file. Used by one thread. Throws Error naming the file and the system's
// reason.
class TensorBoardWriter {
 public:
  // Creates the folder if needed and a new file events.out.tfevents.* in it, which makes
  // TensorBoard discard values for first_step and later steps in the folder's earlier files.
  explicit TensorBoardWriter(const fs::path& folder, int64_t first_step = 1);
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  // Tags are grouped by the part before the slash, e.g. "train/loss". The steps of a tag must
  // ascend: some versions of TensorBoard discard values whose step is not below the newest one.
  void scalar(std::string_view tag, int64_t step, double value, double wall_time = unix_seconds());
  // Hands buffered events to the system; also done every few kilobytes or seconds and at the end.
  void flush();
  // Returns when everything written is on disk.
  void sync();

  const fs::path& path() const { return path_; }

 private:
  void write_record(const Bytes& event);

  fs::path path_;
  int file_ = -1;
  Bytes buffer_;
  double last_flush_ = 0;
};

struct TensorBoardScalar {
  double wall_time = 0;
  int64_t step = 0;
  std::string tag;
  float value = 0;
};

struct TensorBoardFile {
  std::string file_version;
  std::vector<TensorBoardScalar> scalars;
  // What earlier files say about this step and later ones is discarded.
  std::optional<int64_t> forgets_from;
  bool torn = false;  // the last record is incomplete and was left out
};

// Reads the scalars of an event file, whichever program wrote it. Throws Error naming the file and
// the offset of a damaged record.
TensorBoardFile read_tensorboard(const fs::path& file);

// The steps of each tag that TensorBoard shows for a folder; incomplete and damaged files count up
// to the damage. Empty if the folder does not exist.
using TensorBoardSteps = std::map<std::string, std::vector<int64_t>>;
TensorBoardSteps tensorboard_steps(const fs::path& folder);

// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected), as used by TFRecord files and by iSCSI
// (RFC 3720, appendix B.4, whose vectors the test checks).
uint32_t crc32c(std::span<const uint8_t> bytes);

// TFRecord's masking, so that a CRC stored among the data it covers stays meaningful.
inline uint32_t masked_crc32c(std::span<const uint8_t> bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

// Shared by the writer and the reader of event files: constants of protobuf's wire format and of
// tensorflow.Event (tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto).
constexpr const char* kFileNameStart = "events.out.tfevents.";

// Protobuf wire types.
enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

// Field numbers of tensorflow.Event and the messages inside it.
constexpr uint32_t kEventWallTime = 1;
constexpr uint32_t kEventStep = 2;
constexpr uint32_t kEventFileVersion = 3;
constexpr uint32_t kEventSummary = 5;
constexpr uint32_t kEventSessionLog = 7;
constexpr uint32_t kSummaryValue = 1;
constexpr uint32_t kValueTag = 1;
constexpr uint32_t kValueSimpleValue = 2;
constexpr uint32_t kSessionLogStatus = 1;
constexpr uint64_t kSessionStart = 1;

}  // namespace thinwire::events
