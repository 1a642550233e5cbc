#include <bzlib.h>
#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/data/lines.h"

namespace thinwire::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kInputBytes = size_t{1} << 16;

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(fs::path path)
      : path_(std::move(path)), file_(std::fopen(path_.c_str(), "rb")) {
    if (!file_) fail("open");
  }

  size_t read(std::span<char> out) override {
    const size_t count = std::fread(out.data(), 1, out.size(), file_.get());
    if (std::ferror(file_.get()) != 0) fail("read");
    consumed_ += count;
    return count;
  }
  uint64_t consumed() const override { return consumed_; }
  const fs::path& path() const { return path_; }

 private:
  [[noreturn]] void fail(const char* action) const {
    throw Error(fmt::format("cannot {} {}: {}", action, path_.string(), std::strerror(errno)));
  }

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  fs::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  uint64_t consumed_ = 0;
};

// Shared by all kinds of compression: a buffer of the file's bytes, refilled when it is used up.
class CompressedStream : public ByteStream {
 public:
  CompressedStream(const fs::path& path, std::string kind)
      : file_(path), kind_(std::move(kind)), buffer_(kInputBytes) {}

  uint64_t consumed() const override { return file_.consumed() - unread_.size(); }

  size_t read(std::span<char> out) override {
    size_t done = 0;
    while (done < out.size()) {
      if (unread_.empty()) unread_ = std::span(buffer_).first(file_.read(buffer_));
      if (unread_.empty()) {
        if (inside_) fail("is truncated");
        if (file_.consumed() == 0) fail("is empty");
        break;
      }
      done += decompress(out.subspan(done));
    }
    return done;
  }

 protected:
  // Takes bytes off unread_ (never empty here), returns how many were written to `out`, and sets
  // inside_ to whether more must follow.
  virtual size_t decompress(std::span<char> out) = 0;

  [[noreturn]] void fail(std::string_view why) const {
    throw Error(fmt::format("{}: the {} data {}", file_.path().string(), kind_, why));
  }

  std::span<char> unread_;
  bool inside_ = false;

 private:
  PlainStream file_;
  std::string kind_;
  std::vector<char> buffer_;
};

class GzipStream final : public CompressedStream {
 public:
  explicit GzipStream(const fs::path& path) : CompressedStream(path, "gzip") {
    constexpr int kGzipWindow = 15 + 16;  // largest window, gzip header required
    if (inflateInit2(&state_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

 protected:
  size_t decompress(std::span<char> out) override {
    state_.next_in = reinterpret_cast<Bytef*>(unread_.data());
    state_.avail_in = static_cast<uInt>(unread_.size());
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    const auto capacity = static_cast<uInt>(std::min(out.size(), kInputBytes));
    state_.avail_out = capacity;
    const int status = inflate(&state_, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END) {
      fail(fmt::format("is damaged ({})", state_.msg != nullptr ? state_.msg : "no progress"));
    }
    unread_ = unread_.last(state_.avail_in);
    inside_ = status != Z_STREAM_END;
    if (status == Z_STREAM_END) inflateReset(&state_);
    return capacity - state_.avail_out;
  }

 private:
  z_stream state_{};
};

class Bzip2Stream final : public CompressedStream {
 public:
  explicit Bzip2Stream(const fs::path& path) : CompressedStream(path, "bzip2") { begin(); }
  ~Bzip2Stream() override { BZ2_bzDecompressEnd(&state_); }
  Bzip2Stream(const Bzip2Stream&) = delete;
  Bzip2Stream& operator=(const Bzip2Stream&) = delete;

 protected:
  size_t decompress(std::span<char> out) override {
    state_.next_in = unread_.data();
    state_.avail_in = static_cast<unsigned>(unread_.size());
    state_.next_out = out.data();
    const auto capacity = static_cast<unsigned>(std::min(out.size(), kInputBytes));
    state_.avail_out = capacity;
    const int status = BZ2_bzDecompress(&state_);
    if (status != BZ_OK && status != BZ_STREAM_END) fail(fmt::format("is damaged ({})", status));
    unread_ = unread_.last(state_.avail_in);
    inside_ = status != BZ_STREAM_END;
    const size_t written = capacity - state_.avail_out;
    if (status == BZ_STREAM_END) {
      BZ2_bzDecompressEnd(&state_);
      begin();
    }
    return written;
  }

 private:
  void begin() {
    state_ = {};
    if (BZ2_bzDecompressInit(&state_, 0, 0) != BZ_OK) throw std::bad_alloc();
  }

  bz_stream state_{};
};

class ZstdStream final : public CompressedStream {
 public:
  explicit ZstdStream(const fs::path& path)
      : CompressedStream(path, "Zstandard"), state_(ZSTD_createDStream()) {
    if (!state_) throw std::bad_alloc();
  }

 protected:
  size_t decompress(std::span<char> out) override {
    ZSTD_inBuffer input{unread_.data(), unread_.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    const size_t status = ZSTD_decompressStream(state_.get(), &output, &input);
    if (ZSTD_isError(status) != 0) fail(fmt::format("is damaged ({})", ZSTD_getErrorName(status)));
    unread_ = unread_.subspan(input.pos);
    inside_ = status != 0;
    return output.pos;
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* state) const { ZSTD_freeDStream(state); }
  };
  std::unique_ptr<ZSTD_DStream, Free> state_;
};

}  // namespace

std::unique_ptr<ByteStream> ByteStream::open(const fs::path& path) {
  if (path.extension() == ".gz") return std::make_unique<GzipStream>(path);
  if (path.extension() == ".bz2") return std::make_unique<Bzip2Stream>(path);
  if (path.extension() == ".zst") return std::make_unique<ZstdStream>(path);
  return std::make_unique<PlainStream>(path);
}

}  // namespace thinwire::data
