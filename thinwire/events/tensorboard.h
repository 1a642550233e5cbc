// Event files for TensorBoard: scalars only, written without TensorFlow or protobuf.
// A file is a sequence of TFRecords (u64 length, u32 masked CRC32C of the length, payload, u32
// masked CRC32C of the payload), each one protobuf message tensorflow.Event; see
// tensorflow/core/util/event.proto.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
  // Makes the folder if needed and a new file events.out.tfevents.* in it, which tells TensorBoard
  // to forget what earlier files of the folder say about first_step and later ones.
  explicit TensorBoardWriter(const fs::path& folder, int64_t first_step = 1);
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  // Tags group by what stands before the slash, e.g. "train/loss".
  // Steps of a tag ascend: some versions of TensorBoard forget what is not before the newest one.
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
  // What earlier files say about this step and later ones does not count.
  std::optional<int64_t> forgets_from;
  bool torn = false;  // the last record is incomplete and was left out
};

// Reads the scalars of an event file, by whomever written. Throws Error naming the file and the
// offset of a record that is damaged.
TensorBoardFile read_tensorboard(const fs::path& file);

// The steps a folder has for each tag when TensorBoard has read its files, of which incomplete and
// damaged ones count up to the damage. None where there is no such folder.
using TensorBoardSteps = std::map<std::string, std::vector<int64_t>>;
TensorBoardSteps tensorboard_steps(const fs::path& folder);

}  // namespace thinwire::events
