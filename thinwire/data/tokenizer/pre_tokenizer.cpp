#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "thinwire/data/tokenizer/stages.h"

namespace thinwire::data {
namespace {

// What happens to the text that a pattern matches.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

constexpr std::array<std::pair<std::string_view, Behavior>, 5> kBehaviors = {
    {{"Removed", Behavior::kRemoved},
     {"Isolated", Behavior::kIsolated},
     {"MergedWithPrevious", Behavior::kMergedWithPrevious},
     {"MergedWithNext", Behavior::kMergedWithNext},
     {"Contiguous", Behavior::kContiguous}}};

Behavior read_behavior(const JsonPart& part) {
  const std::string name = part.text();
  for (const auto& [known, behavior] : kBehaviors) {
    if (name == known) return behavior;
  }
  part.refuse(
      "is \"{}\"; expected Removed, Isolated, MergedWithPrevious, MergedWithNext or "
      "Contiguous",
      name);
}

// The ranges that become pieces.
std::vector<TextRange> arrange(const std::vector<TextRange>& ranges, Behavior behavior) {
  std::vector<TextRange> out;
  bool join = false;  // the next range with the last
  for (const TextRange& range : ranges) {
    if (behavior == Behavior::kRemoved) {
      if (!range.matches) out.push_back(range);
      continue;
    }
    const bool after_match = !out.empty() && out.back().matches;
    if (behavior == Behavior::kContiguous) join = !out.empty() && after_match == range.matches;
    if (behavior == Behavior::kMergedWithPrevious) {
      join = !out.empty() && range.matches && !after_match;
    }
    if (behavior == Behavior::kMergedWithNext) join = after_match && !range.matches;
    if (!join) out.push_back(range);
    out.back().end = range.end;
    out.back().matches = range.matches;
  }
  return out;
}

class Split : public PreTokenizer {
 public:
  template <typename Source>
  Split(const Source& pattern, Behavior behavior, bool invert = false)
      : pattern_(pattern), behavior_(behavior), invert_(invert) {}

  std::vector<TextPiece> apply(std::vector<TextPiece> pieces) const override {
    std::vector<TextPiece> out;
    for (const TextPiece& piece : pieces) {
      std::vector<TextRange> ranges = pattern_.ranges(piece.text);
      for (TextRange& range : ranges) range.matches = range.matches != invert_;
      for (const TextRange& range : arrange(ranges, behavior_)) {
        out.push_back({piece.text.substr(range.begin, range.end - range.begin),
                       piece.first && range.begin == 0});
      }
    }
    return out;
  }

 private:
  Pattern pattern_;
  Behavior behavior_;
  bool invert_;
};

class ByteLevel final : public PreTokenizer {
 public:
  explicit ByteLevel(const JsonPart& part) : space_(part.flag_or("add_prefix_space", true)) {
    if (part.flag_or("use_regex", true)) words_.emplace(kWords, Behavior::kIsolated);
  }

  std::vector<TextPiece> apply(std::vector<TextPiece> pieces) const override {
    for (TextPiece& piece : pieces) {
      if (space_ && piece.text[0] != ' ') piece.text.insert(0, 1, ' ');
    }
    if (words_) pieces = words_->apply(std::move(pieces));
    for (TextPiece& piece : pieces) piece.text = to_byte_characters(piece.text);
    return pieces;
  }

 private:
  // GPT-2's.
  static constexpr std::string_view kWords =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

  bool space_;
  std::optional<Split> words_;
};

class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(const JsonPart& part)
      : mark_(part.text_or("replacement", "\xE2\x96\x81")), split_(part.flag_or("split", true)) {
    scheme_ =
        part.text_or("prepend_scheme", part.flag_or("add_prefix_space", true) ? "always" : "never");
    if (scheme_ != "always" && scheme_ != "first" && scheme_ != "never") {
      part.at("prepend_scheme").refuse("is \"{}\"; expected always, first or never", scheme_);
    }
  }

  std::vector<TextPiece> apply(std::vector<TextPiece> pieces) const override {
    std::vector<TextPiece> out;
    for (TextPiece& piece : pieces) {
      std::string text;
      for (const char c : piece.text) c == ' ' ? text += mark_ : text += c;
      const bool marked = scheme_ == "always" || (scheme_ == "first" && piece.first);
      if (marked && !text.starts_with(mark_)) text.insert(0, mark_);
      if (!split_) {
        out.push_back({std::move(text), piece.first});
        continue;
      }
      for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(mark_, at + mark_.size()), text.size());
        const size_t first = text.compare(at, mark_.size(), mark_) == 0
                                 ? end
                                 : std::min(text.find(mark_, at), text.size());
        out.push_back({text.substr(at, first - at), piece.first && at == 0});
        at = first;
      }
    }
    return out;
  }

 private:
  std::string mark_;
  std::string scheme_;
  bool split_;
};

class Sequence final : public PreTokenizer {
 public:
  explicit Sequence(const JsonPart& part) {
    for (const JsonPart& step : part.at("pretokenizers").items()) {
      steps_.push_back(read_pre_tokenizer(step));
    }
  }
  std::vector<TextPiece> apply(std::vector<TextPiece> pieces) const override {
    for (const auto& step : steps_) pieces = step->apply(std::move(pieces));
    return pieces;
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> steps_;
};

}  // namespace

std::unique_ptr<const PreTokenizer> read_pre_tokenizer(const JsonPart& part) {
  constexpr std::string_view kPunctuation = R"([\p{P}$+<=>^`|~])";
  const auto split = [](std::string_view regex, Behavior behavior, bool invert = false) {
    return std::make_unique<Split>(regex, behavior, invert);
  };
  const std::string type = part.text_at("type");
  if (type == "Sequence") return std::make_unique<Sequence>(part);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(part);
  if (type == "Metaspace") return std::make_unique<Metaspace>(part);
  if (type == "Split") {
    return std::make_unique<Split>(part.at("pattern"), read_behavior(part.at("behavior")),
                                   part.flag_or("invert", false));
  }
  if (type == "Digits") {
    const bool each = part.flag_or("individual_digits", false);
    return split(R"(\p{N})", each ? Behavior::kIsolated : Behavior::kContiguous);
  }
  if (type == "Whitespace") return split(R"(\w+|[^\w\s]+)", Behavior::kRemoved, /*invert=*/true);
  if (type == "WhitespaceSplit") return split(R"(\s)", Behavior::kRemoved);
  if (type == "Punctuation") {
    const auto behavior = part.find("behavior");
    return split(kPunctuation, behavior ? read_behavior(*behavior) : Behavior::kIsolated);
  }
  part.refuse(
      "has the type \"{}\", which is not supported; supported pre-tokenizers: Sequence, ByteLevel, "
      "Split, Digits, Metaspace, Whitespace, WhitespaceSplit, Punctuation",
      type);
}

}  // namespace thinwire::data
