#include "thinwire/data/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/data/lines.h"
#include "thinwire/data/records.h"

namespace thinwire::data {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";
constexpr uint64_t kLongestLinePiece = uint64_t{1} << 20;

// The ending that says what a file holds, below .gz, .bz2 or .zst.
std::string content_ending(const fs::path& path) {
  const fs::path ending = path.extension();
  const bool compressed = ending == ".gz" || ending == ".bz2" || ending == ".zst";
  return (compressed ? path.stem().extension() : ending).string();
}

bool is_readable(const fs::path& path) {
  const std::string ending = content_ending(path);
  return ending == ".txt" || ending == ".jsonl";
}

std::vector<InputFile> list_folder(const fs::path& folder) {
  std::vector<InputFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool listed = entry.is_regular_file() || (entry.is_symlink() && !entry.exists());
    if (listed && is_readable(entry.path())) files.push_back(describe_input(entry.path()));
  }
  if (files.empty()) {
    throw Error(
        fmt::format("{} holds no text: expected files ending in .txt or .jsonl, or these with .gz, "
                    ".bz2 or .zst",
                    folder.string()));
  }
  std::ranges::sort(files, {}, &InputFile::path);
  return files;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(kWhiteSpace) == std::string_view::npos;
}

// What the line holds if it is what data sets put between documents, the end-of-text token of a
// tokenizer; else empty.
std::string_view separator_in(std::string_view line) {
  constexpr std::array<std::string_view, 5> kSeparators = {"<|endoftext|>", "<|end_of_text|>",
                                                           "<|eot|>", "</s>", "<eos>"};
  const size_t begin = line.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  line = line.substr(begin, line.find_last_not_of(kWhiteSpace) + 1 - begin);
  const auto found = std::ranges::find(kSeparators, line);
  return found == kSeparators.end() ? std::string_view() : *found;
}

// Removes leading blank lines and trailing whitespace; the first line keeps its indentation.
std::string trimmed(const std::string& text) {
  const size_t visible = text.find_first_not_of(kWhiteSpace);
  if (visible == std::string::npos) return {};
  const size_t line_break = text.rfind('\n', visible);
  const size_t begin = line_break == std::string::npos ? 0 : line_break + 1;
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) + 1 - begin);
}

// Turns lines of one file into documents.
class Splitter {
 public:
  virtual ~Splitter() = default;
  // Takes a line; returns the document that is complete with or before it, empty if there is none.
  virtual std::string add(const Line& line) = 0;
  // The document that the end of the file completes, or empty.
  virtual std::string finish() = 0;
};

class TextSplitter final : public Splitter {
 public:
  // Sets `note`, if it is empty, at the first separator that is taken for text.
  TextSplitter(const fs::path& path, const TextOptions& options, std::string& note)
      : path_(path), options_(options), note_(note) {}

  std::string add(const Line& line) override {
    if (line.begins && line.ends) {
      const std::string_view separator = separator_in(line.text);
      if (!separator.empty() && options_.document == config::DocumentEnd::kSeparator)
        return finish();
      if (!separator.empty() && note_.empty()) note_ = note_of(line, separator);
    }
    std::string complete;
    const bool too_long = document_.size() + line.text.size() + 1 > options_.max_document_bytes;
    if ((line.begins && begins_document(line.text)) || too_long) complete = finish();
    document_ += line.text;
    if (line.ends) document_ += '\n';
    after_blank_ = is_blank(line.text) && (line.begins || after_blank_);
    return complete;
  }

  std::string finish() override {
    std::string document = trimmed(document_);
    document_.clear();
    return document;
  }

 private:
  bool begins_document(std::string_view line) const {
    if (options_.document == config::DocumentEnd::kLine) return true;
    if (options_.document == config::DocumentEnd::kBlankLine) return after_blank_;
    if (options_.document == config::DocumentEnd::kEntry)
      return after_blank_ && !is_blank(line.substr(0, 1));
    return false;
  }

  std::string note_of(const Line& line, std::string_view separator) const {
    return fmt::format(
        "{}: line {} is {}, which is taken for text; data.document=separator ends a document "
        "at such a line and leaves it out",
        path_.string(), line.number, separator);
  }

  const fs::path& path_;
  const TextOptions& options_;
  std::string& note_;
  std::string document_;
  bool after_blank_ = false;
};

class JsonSplitter final : public Splitter {
 public:
  // Sets `record` with the text of each record that it returns.
  JsonSplitter(const fs::path& path, const TextOptions& options, SkippedLines& skipped,
               Record& record)
      : path_(path), options_(options), skipped_(skipped), record_(record) {}

  std::string add(const Line& line) override {
    if (!line.begins) return {};  // the rest of a line that was skipped for its length
    if (line.ends && line.fault.empty() && is_blank(line.text)) return {};
    const auto text = text_of(line);
    if (text) return is_blank(*text) ? std::string() : *text;
    std::string fault = fmt::format("{}: line {} {}", path_.string(), line.number, text.error());
    if (!options_.skip_bad_lines) {
      throw Error(fault + "; data.bad_lines=skip skips such lines");
    }
    skipped_.add(std::move(fault));
    return {};
  }

  std::string finish() override { return {}; }

 private:
  // Returns the document, or what is wrong with the line.
  tl::expected<std::string, std::string> text_of(const Line& line) {
    const auto wrong = [](std::string why) { return tl::unexpected(std::move(why)); };
    if (!line.ends) {
      return wrong(fmt::format("is longer than {}, the maximum for a document",
                               format_bytes(static_cast<double>(options_.max_document_bytes))));
    }
    if (!line.fault.empty()) return wrong(line.fault);
    if (options_.records != nullptr) return record_of(line.text);
    const auto json = try_parse_json<nlohmann::json>(line.text);
    if (json.is_discarded()) return wrong("is " + json_fault(line.text, "not JSON"));
    if (!json.is_object()) return wrong("is not a JSON object");
    const auto field = json.find(options_.text_field);
    if (field == json.end() || !field->is_string()) {
      return wrong(fmt::format("has {} \"{}\" (data.text_field)",
                               field == json.end() ? "no field" : "something other than text as",
                               options_.text_field));
    }
    auto text = field->get<std::string>();
    if (text.find('\0') != std::string::npos) return wrong("holds a NUL character: it is not text");
    return text;
  }

  tl::expected<std::string, std::string> record_of(std::string_view line) {
    auto record = options_.records->read(line);
    if (!record) return tl::unexpected(record.error());
    record_ = std::move(*record);
    return std::exchange(record_.text, {});
  }

  const fs::path& path_;
  const TextOptions& options_;
  SkippedLines& skipped_;
  Record& record_;
};

}  // namespace

void SkippedLines::add(std::string line) {
  ++count;
  if (first.size() < kNamed) first.push_back(std::move(line));
}

void SkippedLines::add(const SkippedLines& later) {
  count += later.count;
  for (const std::string& line : later.first) {
    if (first.size() < kNamed) first.push_back(line);
  }
}

InputFile describe_input(const fs::path& path) {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  constexpr uint64_t kPointerBytes = 1024;  // at most, of a git-lfs pointer, which reading refuses
  if (!file_exists(path)) throw Error(fmt::format("there is no file or folder {}", path.string()));
  if (fs::file_size(path) <= kPointerBytes) read_text_file(path);
  const auto modified = fs::last_write_time(path).time_since_epoch();
  return {path, fs::file_size(path), duration_cast<nanoseconds>(modified).count()};
}

std::vector<InputFile> list_inputs(const std::vector<std::string>& paths) {
  std::vector<InputFile> files;
  for (const std::string& path : paths) {
    if (fs::is_directory(path)) {
      const auto inside = list_folder(path);
      files.insert(files.end(), inside.begin(), inside.end());
    } else if (fs::exists(path) && !is_readable(path)) {
      throw Error(
          fmt::format("cannot tell what {} holds: expected a name ending in .txt or .jsonl, or "
                      "these with .gz, .bz2 or .zst (tools/tables_to_jsonl.py makes lines of "
                      "Parquet and Arrow)",
                      path));
    } else {
      files.push_back(describe_input(path));
    }
  }
  refuse_same_file(files);
  return files;
}

class DocumentSource::Impl {
 public:
  Impl(std::vector<InputFile> files, TextOptions options)
      : files_(std::move(files)), options_(std::move(options)) {
    for (const InputFile& file : files_) total_bytes_ += file.bytes;
  }

  std::optional<std::string> next() {
    while (reader_ != nullptr || open_next()) {
      std::string document = next_in_file();
      if (document.empty()) continue;
      found_ = true;
      text_bytes_ += document.size();
      return document;
    }
    return std::nullopt;
  }

  uint64_t bytes_read() const { return finished_bytes_ + (reader_ ? reader_->consumed() : 0); }
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t replaced() const { return replaced_ + (reader_ ? reader_->replaced() : 0); }
  uint64_t text_bytes() const { return text_bytes_; }
  const SkippedLines& skipped() const { return skipped_; }
  const Record& record() const { return record_; }
  const std::string& separator_note() const { return separator_note_; }

 private:
  bool open_next() {
    if (file_ == files_.size()) {
      digests_.refuse_equal();
      return false;
    }
    const fs::path& path = files_[file_].path;
    found_ = false;
    skipped_before_ = skipped_.count;
    if (content_ending(path) == ".jsonl") {
      reader_ = std::make_unique<LineReader>(path, options_.max_document_bytes,
                                             options_.replace_invalid, options_.skip_bad_lines);
      splitter_ = std::make_unique<JsonSplitter>(path, options_, skipped_, record_);
    } else if (options_.records != nullptr) {
      throw Error(
          fmt::format("{} holds text, but data.records asks for records: lines of a .jsonl "
                      "file",
                      path.string()));
    } else {
      const uint64_t piece = std::min(kLongestLinePiece, options_.max_document_bytes / 2);
      reader_ = std::make_unique<LineReader>(path, piece, options_.replace_invalid);
      splitter_ = std::make_unique<TextSplitter>(path, options_, separator_note_);
    }
    return true;
  }

  // The next document of the open file, empty when it has ended (and is closed now).
  std::string next_in_file() {
    while (reader_->next(line_)) {
      std::string document = splitter_->add(line_);
      if (!document.empty()) return document;
    }
    std::string document = splitter_->finish();
    if (document.empty() && !found_) refuse_empty();
    finished_bytes_ += files_[file_].bytes;
    replaced_ += reader_->replaced();
    digests_.add(files_[file_].path, reader_->digest());
    reader_.reset();
    ++file_;
    return document;
  }

  [[noreturn]] void refuse_empty() const {
    const fs::path& path = files_[file_].path;
    const uint64_t skipped = skipped_.count - skipped_before_;
    if (skipped == 0) throw Error(fmt::format("{} is empty: it holds no text", path.string()));
    throw Error(fmt::format(
        "{} holds no document: data.bad_lines=skip skipped {} lines; {}", path.string(), skipped,
        options_.records != nullptr
            ? skipped_.first.back()
            : fmt::format("is data.text_field = \"{}\" right?", options_.text_field)));
  }

  std::vector<InputFile> files_;
  TextOptions options_;
  size_t file_ = 0;  // the open file, or the next to open
  std::unique_ptr<LineReader> reader_;
  std::unique_ptr<Splitter> splitter_;
  Line line_;
  TextDigests digests_;  // of the files before it
  Record record_;
  bool found_ = false;  // the open file held a document
  uint64_t total_bytes_ = 0;
  uint64_t finished_bytes_ = 0;
  uint64_t replaced_ = 0;
  uint64_t text_bytes_ = 0;
  SkippedLines skipped_;
  uint64_t skipped_before_ = 0;  // the open file
  std::string separator_note_;
};

DocumentSource::DocumentSource(std::vector<InputFile> files, TextOptions options)
    : impl_(std::make_unique<Impl>(std::move(files), std::move(options))) {}
DocumentSource::~DocumentSource() = default;

std::optional<std::string> DocumentSource::next() { return impl_->next(); }
uint64_t DocumentSource::bytes_read() const { return impl_->bytes_read(); }
uint64_t DocumentSource::total_bytes() const { return impl_->total_bytes(); }
uint64_t DocumentSource::replaced() const { return impl_->replaced(); }
uint64_t DocumentSource::text_bytes() const { return impl_->text_bytes(); }
const Record& DocumentSource::record() const { return impl_->record(); }
const std::string& DocumentSource::separator_note() const { return impl_->separator_note(); }
const SkippedLines& DocumentSource::skipped() const { return impl_->skipped(); }

}  // namespace thinwire::data
