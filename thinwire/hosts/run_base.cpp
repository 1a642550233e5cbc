#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <string>
#include <system_error>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/hosts/run_data.h"

namespace thinwire::hosts {
namespace {

constexpr const char* kPartial = ".partial";

// The parts of `bytes`; at least one.
std::vector<std::span<const uint8_t>> parts_of(std::span<const uint8_t> bytes) {
  std::vector<std::span<const uint8_t>> parts;
  for (uint64_t at = 0; at == 0 || at < bytes.size(); at += kMaxPartBytes) {
    parts.push_back(bytes.subspan(at, std::min<uint64_t>(kMaxPartBytes, bytes.size() - at)));
  }
  return parts;
}

// A file whose parts come in any order.
class PartialFile {
 public:
  explicit PartialFile(const fs::path& path)
      : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) {
    if (file_ < 0) fail("create");
  }
  ~PartialFile() { close(file_); }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void write(uint64_t at, std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write");
      at += static_cast<uint64_t>(written);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }
  // Exactly so long, and on the disk.
  void complete(uint64_t bytes) {
    if (ftruncate(file_, static_cast<off_t>(bytes)) != 0 || fsync(file_) != 0) fail("write");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(fmt::format("cannot {} {}: {}", what, path_.string(),
                            std::system_category().message(errno)));
  }

  const fs::path path_;
  const int file_;
};

// Which parts a file that may be there already has.
std::vector<bool> parts_there(const fs::path& path, const DescribedFile& file) {
  std::vector<bool> there(file.parts.size());
  if (!fs::exists(path)) return there;
  const MappedFile mapped(path);
  uint64_t at = 0;
  for (size_t i = 0; i < there.size() && at <= mapped.bytes().size(); ++i) {
    const transport::BlobId& part = file.parts[i];
    if (part.bytes > mapped.bytes().size() - at) break;
    const auto bytes = mapped.bytes().subspan(at, part.bytes);
    there[i] = transport::blob_id(bytes) == part;
    mapped.release(bytes);
    at += part.bytes;
  }
  return there;
}

// For what the files in `partial` do not hold yet.
void check_room(const fs::path& partial, const DescribedBase& base, std::string_view what,
                std::string_view instead) {
  uint64_t missing = 0;
  for (const DescribedFile& file : base.files) {
    const fs::path path = partial / file.name;
    const uint64_t there = fs::exists(path) ? fs::file_size(path) : 0;
    missing += file.bytes() - std::min(there, file.bytes());
  }
  const std::optional<uint64_t> available = free_disk_bytes(partial);
  if (!available || missing <= *available) return;
  throw Error(fmt::format(
      "there is no room for {}: {} more are needed, and the disk of {} has only {} free; make "
      "room{}",
      what, format_bytes(static_cast<double>(missing)), partial.string(),
      format_bytes(static_cast<double>(*available)), instead));
}

void make_folder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) {
    throw Error(fmt::format("cannot create {}: {}", folder.string(), problem.message()));
  }
}

}  // namespace

DescribedBase describe_files(uint64_t digest, std::span<const NamedFile> files) {
  DescribedBase base{digest, {}};
  for (const auto& [name, path] : files) {
    const MappedFile mapped(path);
    DescribedFile& file = base.files.emplace_back(DescribedFile{name, {}});
    for (const auto part : parts_of(mapped.bytes())) {
      file.parts.push_back(transport::blob_id(part));
      mapped.release(part);
    }
  }
  return base;
}

DescribedBase describe_base(uint64_t digest, std::span<const fs::path> files) {
  std::vector<NamedFile> named;
  for (const fs::path& path : files) named.push_back({path.filename().string(), path});
  return describe_files(digest, named);
}

std::map<Sha256, FilePart> file_parts(const DescribedBase& described,
                                      std::span<const NamedFile> files) {
  std::map<Sha256, FilePart> parts;
  for (const DescribedFile& file : described.files) {
    const auto named = std::ranges::find(files, file.name, &NamedFile::name);
    if (named == files.end()) continue;
    uint64_t at = 0;
    for (const transport::BlobId& part : file.parts) {
      parts.emplace(part.name, FilePart{named->path, at, part.bytes});
      at += part.bytes;
    }
  }
  return parts;
}

std::map<Sha256, FilePart> base_parts(const DescribedBase& base, const fs::path& folder) {
  std::vector<NamedFile> files;
  for (const DescribedFile& file : base.files) files.push_back({file.name, folder / file.name});
  return file_parts(base, files);
}

bool has_files(const fs::path& folder, const DescribedBase& base) {
  return std::ranges::all_of(base.files, [&](const DescribedFile& file) {
    const fs::path path = folder / file.name;
    return is_file(path) && fs::file_size(path) == file.bytes() &&
           std::ranges::count(parts_there(path, file), false) == 0;
  });
}

void receive_base(const fs::path& folder, const DescribedBase& base, const Reception& reception,
                  std::string_view what, std::string_view instead) {
  if (fs::exists(folder)) return;
  const fs::path partial = folder.string() + kPartial;
  make_folder(partial);
  check_room(partial, base, what, instead);
  uint64_t done = 0;
  const auto show_progress = [&] {
    if (reception.progress) reception.progress(done, base.bytes());
  };
  show_progress();
  for (const DescribedFile& file : base.files) {
    const fs::path path = partial / file.name;
    make_folder(path.parent_path());
    const std::vector<bool> there = parts_there(path, file);
    PartialFile out(path);
    uint64_t at = 0;
    for (size_t i = 0; i < file.parts.size(); ++i) {
      if (!there[i]) out.write(at, reception.fetch(file.parts[i]));
      at += file.parts[i].bytes;
      done += file.parts[i].bytes;
      show_progress();
    }
    out.complete(at);
  }
  sync_directory(partial);
  publish_directory(partial, folder);
}

}  // namespace thinwire::hosts
