#include "thinwire/data/sentencepiece_model.h"

#include <fmt/format.h>

#include <bit>
#include <cstddef>

#include "thinwire/base/error.h"

namespace thinwire::data {
namespace {

// Field numbers of the schema.
namespace model_field {
constexpr uint64_t kPieces = 1, kTrainer = 2, kNormalizer = 3;
}
namespace piece_field {
constexpr uint64_t kText = 1, kScore = 2, kKind = 3;
}
namespace trainer_field {
constexpr uint64_t kType = 3, kSpaceBehind = 24, kByteFallback = 35;
}
namespace normalizer_field {
constexpr uint64_t kMap = 2, kLeadingSpace = 3, kSingleSpaces = 4, kMarkSpaces = 5;
}

// One field of a message in the wire format of Protocol Buffers.
struct WireField {
  uint64_t number = 0;
  uint64_t value = 0;      // of a number; the bits of a float
  std::string_view bytes;  // of a text or a message
};

class WireReader {
 public:
  WireReader(std::string_view bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  // The next field into `field`; false at the end.
  bool next(WireField& field) {
    if (bytes_.empty()) return false;
    const uint64_t tag = varint();
    field = {tag >> 3, 0, {}};
    switch (tag & 7) {
      case 0:
        field.value = varint();
        return true;
      case 1:
        field.value = fixed(8);
        return true;
      case 2:
        field.bytes = take(varint());
        return true;
      case 5:
        field.value = fixed(4);
        return true;
      default:
        refuse();
    }
  }

  [[noreturn]] void refuse() const {
    throw Error(fmt::format("{} is not a SentencePiece model, or a damaged one", origin_));
  }

 private:
  std::string_view take(uint64_t count) {
    if (count > bytes_.size()) refuse();
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  uint64_t fixed(size_t count) {
    uint64_t value = 0;
    const std::string_view taken = take(count);
    for (size_t i = 0; i < count; ++i) {
      value |= uint64_t{static_cast<uint8_t>(taken[i])} << (8 * i);
    }
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    refuse();
  }

  std::string_view bytes_;
  const std::string& origin_;
};

SentencePieceModel::Piece parse_piece(std::string_view bytes, const std::string& origin) {
  SentencePieceModel::Piece piece;
  WireReader reader(bytes, origin);
  for (WireField field; reader.next(field);) {
    if (field.number == piece_field::kText) piece.text = field.bytes;
    if (field.number == piece_field::kScore) {
      piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    }
    if (field.number == piece_field::kKind) {
      if (field.value < 1 || field.value > 6) reader.refuse();
      piece.kind = static_cast<PieceKind>(field.value);
    }
  }
  return piece;
}

void parse_trainer(std::string_view bytes, const std::string& origin, SentencePieceModel& model) {
  WireReader reader(bytes, origin);
  for (WireField field; reader.next(field);) {
    if (field.number == trainer_field::kType) {
      if (field.value < 1 || field.value > 4) reader.refuse();
      model.type = static_cast<SentencePieceModel::Type>(field.value);
    }
    if (field.number == trainer_field::kSpaceBehind) model.space_suffix = field.value != 0;
    if (field.number == trainer_field::kByteFallback) model.byte_fallback = field.value != 0;
  }
}

void parse_normalizer(std::string_view bytes, const std::string& origin,
                      SentencePieceModel& model) {
  WireReader reader(bytes, origin);
  for (WireField field; reader.next(field);) {
    if (field.number == normalizer_field::kMap) model.normalization = field.bytes;
    if (field.number == normalizer_field::kLeadingSpace) model.leading_space = field.value != 0;
    if (field.number == normalizer_field::kSingleSpaces) model.single_spaces = field.value != 0;
    if (field.number == normalizer_field::kMarkSpaces) model.mark_spaces = field.value != 0;
  }
}

}  // namespace

SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& origin) {
  SentencePieceModel model;
  WireReader reader(bytes, origin);
  for (WireField field; reader.next(field);) {
    if (field.number == model_field::kPieces) {
      model.pieces.push_back(parse_piece(field.bytes, origin));
    }
    if (field.number == model_field::kTrainer) parse_trainer(field.bytes, origin, model);
    if (field.number == model_field::kNormalizer) parse_normalizer(field.bytes, origin, model);
    if (field.number == kSentencePieceRulesField) model.rules = field.bytes;
  }
  if (model.pieces.empty()) reader.refuse();
  return model;
}

}  // namespace thinwire::data
