#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/data/tokenizer/stages.h"

namespace thinwire::data {
namespace {

icu::UnicodeString to_utf16(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

std::string to_utf8(const icu::UnicodeString& text) {
  std::string out;
  text.toUTF8String(out);
  return out;
}

class Sequence final : public TextNormalizer {
 public:
  explicit Sequence(const JsonPart& part) {
    for (const JsonPart& step : part.at("normalizers").items()) {
      steps_.push_back(read_normalizer(step));
    }
  }
  std::string apply(std::string text) const override {
    for (const auto& step : steps_) text = step->apply(std::move(text));
    return text;
  }

 private:
  std::vector<std::unique_ptr<const TextNormalizer>> steps_;
};

class UnicodeForm final : public TextNormalizer {
 public:
  using Get = const icu::Normalizer2* (*)(UErrorCode&);

  explicit UnicodeForm(Get get) {
    UErrorCode status = U_ZERO_ERROR;
    form_ = get(status);
    if (U_FAILURE(status) != 0) throw Error("ICU has no tables of Unicode normalization forms");
  }
  std::string apply(std::string text) const override {
    UErrorCode status = U_ZERO_ERROR;
    const icu::UnicodeString utf16 = to_utf16(text);
    if (form_->isNormalized(utf16, status) != 0) return text;
    const icu::UnicodeString normal = form_->normalize(utf16, status);
    if (U_FAILURE(status) != 0) throw Error("a text cannot be normalized");
    return to_utf8(normal);
  }

 private:
  const icu::Normalizer2* form_ = nullptr;
};

// Calls visit(character) for every character.
template <typename Visit>
void for_each_character(const icu::UnicodeString& text, const Visit& visit) {
  for (int32_t at = 0; at < text.length();) {
    const UChar32 character = text.char32At(at);
    visit(character);
    at += U16_LENGTH(character);
  }
}

// Character by character, whatever its neighbours are, as in the tokenizers package.
class Lowercase final : public TextNormalizer {
 public:
  std::string apply(std::string text) const override {
    icu::UnicodeString lower;
    for_each_character(to_utf16(text), [&](UChar32 character) {
      lower += icu::UnicodeString(character).toLower(icu::Locale::getRoot());
    });
    return to_utf8(lower);
  }
};

class StripAccents final : public TextNormalizer {
 public:
  std::string apply(std::string text) const override {
    icu::UnicodeString bare;
    for_each_character(to_utf16(text), [&](UChar32 character) {
      if ((U_GET_GC_MASK(character) & U_GC_M_MASK) == 0) bare += character;
    });
    return to_utf8(bare);
  }
};

class Strip final : public TextNormalizer {
 public:
  explicit Strip(const JsonPart& part)
      : left_(part.flag_or("strip_left", true)), right_(part.flag_or("strip_right", true)) {}
  std::string apply(std::string text) const override {
    const icu::UnicodeString utf16 = to_utf16(text);
    int32_t begin = 0;
    int32_t end = utf16.length();
    while (left_ && begin < end && u_isUWhiteSpace(utf16.char32At(begin)) != 0) ++begin;
    while (right_ && begin < end && u_isUWhiteSpace(utf16.char32At(end - 1)) != 0) --end;
    return to_utf8(utf16.tempSubStringBetween(begin, end));
  }

 private:
  bool left_;
  bool right_;
};

class Replace final : public TextNormalizer {
 public:
  explicit Replace(const JsonPart& part)
      : pattern_(part.at("pattern")), content_(part.text_at("content")) {}
  std::string apply(std::string text) const override {
    std::string out;
    for (const TextRange& range : pattern_.ranges(text)) {
      if (range.matches) {
        out += content_;
      } else {
        out.append(text, range.begin, range.end - range.begin);
      }
    }
    return out;
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class Prepend final : public TextNormalizer {
 public:
  explicit Prepend(const JsonPart& part) : before_(part.text_at("prepend")) {}
  std::string apply(std::string text) const override {
    return text.empty() ? text : before_ + text;
  }

 private:
  std::string before_;
};

constexpr std::array<std::pair<std::string_view, UnicodeForm::Get>, 4> kForms = {
    {{"NFC", icu::Normalizer2::getNFCInstance},
     {"NFD", icu::Normalizer2::getNFDInstance},
     {"NFKC", icu::Normalizer2::getNFKCInstance},
     {"NFKD", icu::Normalizer2::getNFKDInstance}}};

}  // namespace

std::unique_ptr<const TextNormalizer> read_normalizer(const JsonPart& part) {
  const std::string type = part.text_at("type");
  for (const auto& [name, get] : kForms) {
    if (type == name) return std::make_unique<UnicodeForm>(get);
  }
  if (type == "Sequence") return std::make_unique<Sequence>(part);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Strip") return std::make_unique<Strip>(part);
  if (type == "Replace") return std::make_unique<Replace>(part);
  if (type == "Prepend") return std::make_unique<Prepend>(part);
  part.refuse(
      "has the type \"{}\", which is not supported; supported normalizers: Sequence, NFC, NFD, "
      "NFKC, NFKD, Lowercase, Strip, StripAccents, Replace, Prepend",
      type);
}

}  // namespace thinwire::data
