#include "thinwire/launch/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace thinwire::launch {
namespace {

// The first byte of a note.
template <typename T, size_t index = 0>
constexpr uint8_t kind_of() {
  if constexpr (std::is_same_v<std::variant_alternative_t<index, Note>, T>) {
    return static_cast<uint8_t>(index);
  } else {
    return kind_of<T, index + 1>();
  }
}

class NoteWriter {
 public:
  explicit NoteWriter(Bytes& out) : writer_(out) {}

  void operator()(bool value) { writer_.put(static_cast<uint8_t>(value)); }
  void operator()(int value) { writer_.put(int32_t{value}); }
  void operator()(int64_t value) { writer_.put(value); }
  void operator()(uint64_t value) { writer_.put(value); }
  void operator()(double value) { writer_.put(value); }
  void operator()(const std::string& text) { writer_.put_string(text); }
  void operator()(const std::vector<std::string>& texts) {
    writer_.put(static_cast<uint32_t>(texts.size()));
    for (const std::string& text : texts) writer_.put_string(text);
  }
  template <typename T>
  void list(std::span<const T> values) {
    writer_.put(uint64_t{values.size()});
    writer_.put_bytes(as_bytes(values));
  }

 private:
  ByteWriter writer_;
};

// Limits counts so that their sums cannot overflow.
constexpr int64_t kMaxCounted = int64_t{1} << 56;

// Remembers the first error; values read after it are meaningless.
class NoteReader {
 public:
  explicit NoteReader(std::span<const uint8_t> in) : reader_(in) {}

  void operator()(bool& value) {
    const auto byte = reader_.get<uint8_t>();
    value = byte == 1;
    if (byte > 1) refuse("a flag is neither 0 nor 1");
  }
  void operator()(int& value) { value = reader_.get<int32_t>(); }
  // A count; -1 stands for none.
  void operator()(int64_t& value) {
    value = reader_.get<int64_t>();
    if (value < -1 || value > kMaxCounted) refuse("a count is out of range");
  }
  void operator()(uint64_t& value) { value = reader_.get<uint64_t>(); }
  void operator()(double& value) { value = reader_.get<double>(); }
  void operator()(std::string& text) { text = reader_.get_string(); }
  void operator()(std::vector<std::string>& texts) {
    texts.resize(count(4));
    for (std::string& text : texts) text = reader_.get_string();
  }
  template <typename T>
  void list(std::vector<T>& values) {
    const auto count = reader_.get<uint64_t>();
    if (count > reader_.remaining() / sizeof(T)) return refuse("a list is truncated");
    const auto bytes = reader_.get_bytes(count * sizeof(T));
    values.resize(count);
    if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  // A type of state other than fp32.
  DType stored_type() {
    const auto type = static_cast<DType>(reader_.get<uint8_t>());
    if (type == DType::kBf16 || type == DType::kU8) return type;
    refuse("state of an unknown type");
    return DType::kU8;
  }
  // The number of items to follow, each of at least `bytes`.
  size_t count(size_t bytes) {
    const auto items = reader_.get<uint32_t>();
    if (items <= reader_.remaining() / bytes) return items;
    refuse("a list is truncated");
    return 0;
  }
  void refuse(const char* why) {
    if (wrong_ == nullptr && reader_.ok()) wrong_ = why;
  }
  // What is wrong with the note, or null.
  const char* wrong() const {
    if (wrong_ != nullptr) return wrong_;
    if (!reader_.ok()) return "it is truncated";
    return reader_.at_end() ? nullptr : "bytes follow its end";
  }

 private:
  ByteReader reader_;
  const char* wrong_ = nullptr;
};

// The fields of notes in their order, for both writing (const) and reading.
template <typename Pairs, typename Visit>
void pair_fields(Pairs& pairs, Visit& visit) {
  visit(pairs.pairs);
  visit(pairs.right);
  visit(pairs.chosen);
  visit(pairs.rejected);
}

template <typename Classes, typename Visit>
void class_fields(Classes& classes, Visit& visit) {
  visit(classes.classes);
  visit(classes.texts);
  visit(classes.right);
  visit(classes.true_positive);
  visit(classes.false_positive);
  visit(classes.false_negative);
}

template <typename Numbers, typename Visit>
void number_fields(Numbers& numbers, Visit& visit) {
  visit(numbers.texts);
  visit(numbers.true_mean);
  visit(numbers.predicted_mean);
  visit(numbers.true_square);
  visit(numbers.predicted_square);
  visit(numbers.product);
}

template <typename Part, typename Visit>
void step_fields(Part& part, Visit& visit) {
  // A new member of StepPart belongs here and in docs/formats.md.
  static_assert(sizeof(train::StepPart) == 21 * 8);
  visit(part.members);
  visit(part.loss_sum);
  visit(part.tokens);
  visit(part.uncounted);
  visit(part.learning_rate);
  visit(part.gradient_norm);
  visit(part.bytes_sent);
  visit(part.bytes_received);
  visit(part.data_s);
  visit(part.compute_s);
  visit(part.exchange_s);
  visit(part.update_s);
  visit(part.simulated_s);
  visit(part.simulated_compute_s);
  visit(part.synchronised);
  visit(part.digest);
  visit(part.state_digest);
  pair_fields(part.pairs, visit);
}

template <typename AnyNote, typename Visit>
void fields(AnyNote& note, Visit& visit) {
  using T = std::remove_const_t<AnyNote>;
  if constexpr (std::is_same_v<T, StartNote>) {
    visit(note.finished);
    visit(note.checkpoint);
    visit(note.evaluated);
    visit(note.best.step);
    visit(note.best.loss);
    visit(note.best.since);
  } else if constexpr (std::is_same_v<T, StepNote>) {
    visit(note.step);
    visit(note.worker);
    step_fields(note.part, visit);
  } else if constexpr (std::is_same_v<T, EvaluationNote>) {
    static_assert(sizeof(train::EvalPart) == 20 * 8);
    visit(note.step);
    visit(note.worker);
    visit(note.name);
    visit(note.part.members);
    visit(note.part.loss_sum);
    visit(note.part.tokens);
    visit(note.part.score);
    pair_fields(note.part.pairs, visit);
    class_fields(note.part.classes, visit);
    number_fields(note.part.numbers, visit);
  } else if constexpr (std::is_same_v<T, StopAnswerNote> || std::is_same_v<T, StopAtNote>) {
    visit(note.point);
  } else if constexpr (std::is_same_v<T, CheckpointAskNote>) {
    visit(note.margin);
  } else if constexpr (std::is_same_v<T, CheckpointAnswerNote> ||
                       std::is_same_v<T, CheckpointAtNote>) {
    visit(note.step);
  }
}

// A part of a file's name (CheckpointWriter::write_worker).
bool is_plain(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

template <typename T>
void read_item(NoteReader& reader, std::pair<std::string, std::vector<T>>& item) {
  reader(item.first);
  if (!is_plain(item.first))
    reader.refuse("a name of state holds something other than letters, digits, _, - and .");
  reader.list(item.second);
}

template <typename T>
void read_items(NoteReader& reader, std::vector<std::pair<std::string, std::vector<T>>>& items) {
  items.resize(reader.count(4 + 8));
  for (auto& item : items) read_item(reader, item);
}

void read_stored(NoteReader& reader, std::vector<StoredState>& items) {
  items.resize(reader.count(4 + 1 + 8));
  for (StoredState& item : items) {
    item.dtype = reader.stored_type();
    std::vector<std::pair<std::string, Bytes>> one(1);
    read_item(reader, one.front());
    item.name = std::move(one.front().first);
    item.bytes = std::move(one.front().second);
    if (item.bytes.size() % static_cast<size_t>(dtype_bytes(item.dtype)) != 0)
      reader.refuse("state of 16-bit values has an odd number of bytes");
  }
}

template <typename T>
Result<Note> read(std::span<const uint8_t> bytes) {
  NoteReader reader(bytes);
  T note;
  if constexpr (std::is_same_v<T, CheckpointNote>) {
    reader(note.step);
    reader(note.worker);
    reader(note.members);
    read_items(reader, note.local);
    read_items(reader, note.in_flight);
    read_stored(reader, note.stored);
  } else {
    fields(note, reader);
  }
  if (reader.wrong() == nullptr) return Note(std::move(note));
  return fail(FailureKind::kCorruptPayload,
              fmt::format("a note of kind {}: {}", kind_of<T>(), reader.wrong()));
}

template <size_t... index>
Result<Note> read_kind(size_t kind, std::span<const uint8_t> bytes, std::index_sequence<index...>) {
  using Read = Result<Note> (*)(std::span<const uint8_t>);
  constexpr Read kReaders[] = {read<std::variant_alternative_t<index, Note>>...};
  return kReaders[kind](bytes);
}

}  // namespace

checkpoint::WorkerState CheckpointNote::state() const {
  checkpoint::WorkerState state;
  state.members = members;
  for (const auto& [name, values] : local) state.local.emplace_back(name, values);
  for (const StoredState& part : stored) {
    state.local.emplace_back(part.name, part.dtype, part.bytes);
  }
  for (const auto& [name, bytes] : in_flight) state.in_flight.push_back({name, bytes});
  return state;
}

Bytes encode_checkpoint_note(int64_t step, int worker, const checkpoint::WorkerState& state) {
  Bytes bytes = {kind_of<CheckpointNote>()};
  NoteWriter write(bytes);
  write(step);
  write(worker);
  write(state.members);
  const auto is_fp32 = [](const NamedValues& part) { return part.dtype == DType::kF32; };
  const auto fp32 = std::ranges::count_if(state.local, is_fp32);
  ByteWriter(bytes).put(static_cast<uint32_t>(fp32));
  for (const NamedValues& part : state.local) {
    if (!is_fp32(part)) continue;
    write(part.name);
    write.list(part.values);
  }
  ByteWriter(bytes).put(static_cast<uint32_t>(state.in_flight.size()));
  for (const NamedBytes& part : state.in_flight) {
    write(part.name);
    write.list(part.values);
  }
  ByteWriter(bytes).put(static_cast<uint32_t>(std::ssize(state.local) - fp32));
  for (const NamedValues& part : state.local) {
    if (is_fp32(part)) continue;
    ByteWriter(bytes).put(part.dtype);
    write(part.name);
    write.list(part.bytes);
  }
  return bytes;
}

Bytes encode_note(const Note& note) {
  if (const auto* checkpoint = std::get_if<CheckpointNote>(&note)) {
    return encode_checkpoint_note(checkpoint->step, checkpoint->worker, checkpoint->state());
  }
  Bytes bytes = {static_cast<uint8_t>(note.index())};
  NoteWriter writer(bytes);
  std::visit([&writer](const auto& one) { fields(one, writer); }, note);
  return bytes;
}

Result<Note> decode_note(std::span<const uint8_t> bytes) {
  constexpr size_t kKinds = std::variant_size_v<Note>;
  if (bytes.empty()) return fail(FailureKind::kCorruptPayload, "an empty note");
  if (bytes[0] >= kKinds) {
    return fail(FailureKind::kCorruptPayload,
                fmt::format("a note of kind {}; known kinds are 0 to {}", bytes[0], kKinds - 1));
  }
  return read_kind(bytes[0], bytes.subspan(1), std::make_index_sequence<kKinds>());
}

bool is_part(std::span<const uint8_t> note) {
  return !note.empty() && note[0] >= kind_of<StepNote>() && note[0] <= kind_of<CompleteNote>();
}

}  // namespace thinwire::launch
