// Where the files of a mailbox lie, and what they look like: docs/formats.md, "Mailbox". Each
// participant writes below a folder of its own only:
//
//   <folder>/<run>/<participant>/blobs/<xx>/<SHA-256>
//                                statements/<number>-<topic>
//                                records/<stream>/<sequence>      coordinator only
//                                drops/<number>-<holder>          coordinator only
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/transport/courier/blob.h"

namespace thinwire::transport {

// A folder that others can write to as well. A name is one component of a path, and symbolic links
// below the folder are never followed, so nobody can make this program read or write elsewhere.
// Files are written under another name, synced and renamed, so that nobody sees half of one.

// Failures of all functions: kLostPeer, it is not there or is not what it should be, e.g. a link;
// kCorruptPayload, longer than allowed; kRefused, no space or no permission; kDeadline, any other
// error of the file system, which may be over later.
class SharedFolder {
 public:
  // Follows links: the path is the user's own.
  static Result<SharedFolder> open(const fs::path& path);
  ~SharedFolder();
  SharedFolder(SharedFolder&& other) noexcept;
  SharedFolder& operator=(SharedFolder&& other) noexcept;

  Result<SharedFolder> folder(const std::string& name) const;
  // The same; creates it if it is not there.
  Result<SharedFolder> make_folder(const std::string& name) const;

  // The names of everything in it, sorted.
  Result<std::vector<std::string>> names() const;
  // Whether there is a regular file of this name.
  bool has(const std::string& name) const;
  Result<Bytes> read(const std::string& name, size_t max_bytes) const;
  // Replaces what is there. Once it succeeds, the file is on disk.
  Result<void> write(const std::string& name, std::span<const uint8_t> bytes) const;
  // It is no failure if it is not there.
  Result<void> remove(const std::string& name) const;

 private:
  explicit SharedFolder(int handle) : handle_(handle) {}
  Result<void> write_new(const std::string& name, std::span<const uint8_t> bytes) const;

  int handle_ = -1;
};

// What the names of files end with that are being written.
inline constexpr const char* kPartialSuffix = ".partial";

inline constexpr const char* kBlobFolder = "blobs";
inline constexpr const char* kStatementFolder = "statements";
inline constexpr const char* kRecordFolder = "records";
inline constexpr const char* kDropFolder = "drops";

// Opens every folder anew for each call, so a network share may come and go.
class MailboxPlace {
 public:
  // Throws UsageError for names that are not courier names.
  MailboxPlace(fs::path folder, std::string run, std::string self);

  const fs::path& folder() const { return folder_; }
  const std::string& self() const { return self_; }
  // Whether the folder is there and can be written to.
  bool usable() const;
  // The names below the run's folder that can be participants'.
  std::vector<std::string> participants() const;
  // A folder below a participant's. Failures as of SharedFolder.
  Result<SharedFolder> of(const std::string& participant,
                          const std::vector<std::string>& below) const;
  // The same below this participant's own, created where it is missing. The mailbox's folder itself
  // is never created: it may be a share that is not mounted.
  Result<SharedFolder> own(const std::vector<std::string>& below) const;
  // Removes what writing left unfinished in this participant's own folder when it was interrupted.
  void remove_partial_files() const;
  // Removes everything in it, and the folder.
  void remove_own() const;

 private:
  const fs::path folder_;
  const std::string run_;
  const std::string self_;
};

// Names of statements and drops; the second part is a courier name.
struct NumberedName {
  uint64_t number = 0;
  std::string text;
};
std::string print_numbered(const NumberedName& name);
// Total: nothing for the name of anything else.
std::optional<NumberedName> parse_numbered(std::string_view name);

std::string record_name(uint64_t sequence);
std::optional<uint64_t> parse_record_name(std::string_view name);

// The content of a statement, record or drop with its hash before it, by which a reader knows that
// the file is whole.
inline constexpr size_t kMaxSealedBytes = kMaxMessageBytes + 38;
Bytes seal(std::span<const uint8_t> content);
// Total: nothing if the file is not whole.
std::optional<Bytes> unseal(std::span<const uint8_t> file);

}  // namespace thinwire::transport
