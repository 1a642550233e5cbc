#include "thinwire/tensor/files/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/errors.h"
#include "tests/paths.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/half.h"
#include "thinwire/base/json.h"

namespace thinwire::tensor {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::error_of;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

fs::path temp_file(const std::string& name) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return fs::path(testing::TempDir()) / fmt::format("safetensors_{}_{}", test->name(), name);
}

// Does not wait for the disk, unlike write_file and truncation of an existing file: it is called
// thousands of times.
void overwrite(const fs::path& path, std::string_view bytes) {
  fs::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

// A file as an arbitrary program could have written it.
fs::path write_raw(const std::string& name, std::string_view header,
                   std::span<const uint8_t> data) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint64_t>(header.size()));
  out.put_bytes(as_bytes(header));
  out.put_bytes(data);
  const fs::path path = temp_file(name);
  overwrite(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return path;
}

std::string open_error(const fs::path& path) {
  return error_of([&] { const SafetensorsReader reader(path); });
}

std::string header_error(std::string_view header, size_t data_bytes) {
  const Bytes data(data_bytes);
  return open_error(write_raw("raw", header, data));
}

// Two tensors in one small file.
fs::path write_small(const std::string& name) {
  const fs::path path = temp_file(name);
  SafetensorsWriter writer(path, {{"a", {2, 3}}, {"b", {1}}}, DType::kF32, {{"format", "pt"}});
  writer.write(std::vector<float>{1, 2, 3, 4, 5, 6});
  writer.write(std::vector<float>{7});
  writer.commit();
  return path;
}

TEST(Safetensors, RoundTripKeepsNamesShapesValuesAndMetadata) {
  const SafetensorsReader reader(write_small("file"));
  EXPECT_THAT(reader.names(), ElementsAre("a", "b"));
  EXPECT_EQ(reader.find("a").shape, (Shape{2, 3}));
  EXPECT_THAT(reader.read_f32("a"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(reader.read_f32("b"), ElementsAre(7));
  EXPECT_EQ(reader.metadata(), (Metadata{{"format", "pt"}}));
}

TEST(Safetensors, WriterTakesPiecesOfAnySizeAndStatesSizeAndHash) {
  const fs::path path = temp_file("file");
  std::vector<float> values(200'001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.37f - 100;
  SafetensorsWriter writer(path, {{"x", {200'001}}, {"empty", {0, 4}}}, DType::kF32, {});
  writer.write(std::span(values).first(3));
  writer.write(std::span(values).subspan(3, 150'000));
  writer.write(std::span(values).subspan(150'003));
  writer.commit();
  const SafetensorsReader reader(path);
  EXPECT_EQ(reader.read_f32("x"), values);
  EXPECT_TRUE(reader.read_f32("empty").empty());
  const MappedFile file(path);
  EXPECT_EQ(writer.size(), file.bytes().size());
  EXPECT_EQ(writer.hash(), hash_bytes(file.bytes()));
}

TEST(Safetensors, Bf16OutputIsRoundedToNearestEven) {
  const fs::path path = temp_file("file");
  const std::vector<float> values = {1.0f,        1.00390625f, 1.01171875f,
                                     -3.1415926f, 1e-40f,      kInfinity};
  SafetensorsWriter writer(path, {{"x", {6}}}, DType::kBf16, {});
  writer.write(values);
  writer.commit();
  const SafetensorsReader reader(path);
  EXPECT_EQ(reader.find("x").dtype, DType::kBf16);
  std::vector<float> rounded;
  for (const float value : values) rounded.push_back(round_to_bf16(value));
  EXPECT_EQ(reader.read_f32("x"), rounded);
  EXPECT_EQ(rounded[1], 1.0f);       // a tie, down to even
  EXPECT_EQ(rounded[2], 1.015625f);  // a tie, up to even
}

TEST(Safetensors, DataAreAlignedForMapping) {
  const SafetensorsReader reader(write_small("file"));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(reader.find("a").data) % 8, 0u);
}

TEST(Safetensors, ReadsEveryHalfPrecisionNumber) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  const fs::path path =
      write_raw("half", R"({"x":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]}})",
                as_bytes(std::span<const uint16_t>(halves)));
  const std::vector<float> values = SafetensorsReader(path).read_f32("x");
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float sign = (bits & 0x8000u) != 0 ? -1.0f : 1.0f;
    const int exponent = static_cast<int>((bits >> 10) & 31u);
    const auto mantissa = static_cast<float>(bits & 1023u);
    float expected = sign * std::ldexp(1 + mantissa / 1024, exponent - 15);
    if (exponent == 0) expected = sign * std::ldexp(mantissa, -24);
    if (exponent == 31) expected = sign * kInfinity;
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(values[bits])) << bits;
    } else {
      EXPECT_EQ(values[bits], expected) << bits;
      EXPECT_EQ(std::signbit(values[bits]), sign < 0) << bits;
    }
  }
}

TEST(Safetensors, ReadsUnalignedTensorsAndIntegers) {
  Bytes data = {200};
  ByteWriter out(data);
  out.put(1.5f);
  out.put(int32_t{-7});
  out.put(int64_t{1} << 40);
  const SafetensorsReader reader(
      write_raw("mixed",
                R"({"u":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                R"("f":{"dtype":"F32","shape":[],"data_offsets":[1,5]},)"
                R"("i":{"dtype":"I32","shape":[1],"data_offsets":[5,9]},)"
                R"("l":{"dtype":"I64","shape":[1,1],"data_offsets":[9,17]}})",
                data));
  EXPECT_THAT(reader.read_integers("u"), ElementsAre(200));
  EXPECT_THAT(reader.read_f32("f"), ElementsAre(1.5f));
  EXPECT_THAT(reader.read_integers("i"), ElementsAre(-7));
  EXPECT_THAT(reader.read_integers("l"), ElementsAre(int64_t{1} << 40));
  EXPECT_THAT(error_of([&] { (void)reader.read_f32("i"); }), HasSubstr("floating-point"));
  EXPECT_THAT(error_of([&] { (void)reader.read_integers("f"); }), HasSubstr("integer type"));
}

TEST(Safetensors, WrongNameOrSizeIsAnErrorThatNamesFileAndTensor) {
  const fs::path path = write_small("file");
  const SafetensorsReader reader(path);
  std::vector<float> five(5);
  EXPECT_THAT(error_of([&] { reader.read_f32("a", five); }),
              AllOf(HasSubstr(path.string()), HasSubstr("tensor a"), HasSubstr("6 values"),
                    HasSubstr("5 expected")));
  EXPECT_THAT(error_of([&] { (void)reader.find("c"); }),
              AllOf(HasSubstr(path.string()), HasSubstr("no tensor c")));
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string whole = read_text_file(write_small("whole"));
  const fs::path path = temp_file("cut");
  for (size_t size = 0; size < whole.size(); ++size) {
    overwrite(path, std::string_view(whole).substr(0, size));
    EXPECT_THAT(open_error(path), HasSubstr(path.string())) << size;
  }
  overwrite(path, whole + "x");
  EXPECT_THAT(open_error(path), HasSubstr("1 bytes follow the last tensor"));
}

TEST(Safetensors, EveryFlippedByteGivesAReaderOrAnError) {
  const std::string whole = read_text_file(write_small("whole"));
  const fs::path path = temp_file("flipped");
  int refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int mask : {0x01, 0x10, 0x80, 0xff}) {
      std::string altered = whole;
      altered[at] = static_cast<char>(altered[at] ^ mask);
      overwrite(path, altered);
      try {
        const SafetensorsReader reader(path);
        for (const std::string& name : reader.names()) (void)reader.find(name);
        if (reader.contains("b")) (void)reader.read_f32("b");
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr(path.string()));
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 300);
}

TEST(Safetensors, RefusesFilesOfOtherFormats) {
  const fs::path path = temp_file("other_format");
  overwrite(path, "");
  EXPECT_THAT(open_error(path), HasSubstr("not a safetensors file"));
  overwrite(path, "%PDF-1.7 is another format altogether");
  EXPECT_THAT(open_error(path), HasSubstr("not a safetensors file"));
  EXPECT_THAT(header_error("[1, 2]", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(open_error(testing::TempDir()), HasSubstr("not a regular file"));
  EXPECT_THAT(open_error(temp_file("absent")), HasSubstr("cannot open"));
}

// A look-up through all names for each tensor, or of all values for each value, takes minutes here.
TEST(Safetensors, ManyTensorsAreWrittenAndReadInATimeThatGrowsWithTheirNumber) {
  constexpr int kTensors = 200'000;
  std::vector<SafetensorsEntry> entries;
  std::vector<float> values;
  for (int i = 0; i < kTensors; ++i) {
    entries.push_back({fmt::format("model.layers.{}.self_attn.q_proj.weight", i), {1}});
    values.push_back(static_cast<float>(i));
  }
  const fs::path path = temp_file("file");
  SafetensorsWriter writer(path, entries, DType::kF32, {{"format", "pt"}});
  writer.write(values);
  writer.commit();
  const SafetensorsReader reader(path);
  ASSERT_EQ(reader.names().size(), entries.size());
  for (int i = 0; i < kTensors; i += 997) {
    EXPECT_EQ(reader.names()[i], entries[i].name);
    EXPECT_THAT(reader.read_f32(entries[i].name), ElementsAre(values[i]));
  }
  entries.push_back(entries[17]);
  EXPECT_THAT(error_of([&] { SafetensorsWriter(path, entries, DType::kF32, {}); }),
              HasSubstr("two tensors are named " + entries[17].name));
}

TEST(Safetensors, RefusesHeadersBeyondTheirBounds) {
  const fs::path path = temp_file("huge");
  Bytes bytes;
  ByteWriter(bytes).put(uint64_t{100'000'001});
  overwrite(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  EXPECT_THAT(open_error(path), HasSubstr("at most 100000000 allowed"));
  EXPECT_THAT(header_error(R"({"a":)" + std::string(1'000'000, '['), 0),
              HasSubstr("nested too deeply"));
}

struct BadHeader {
  const char* tensor;  // the description of tensor "a"
  const char* message;
};

TEST(Safetensors, EveryBadTensorDescriptionIsNamed) {
  const std::vector<BadHeader> cases = {
      {R"(7)", "tensor a: dtype is missing"},
      {R"({"dtype":"F32","shape":[2]})", "tensor a: data_offsets is missing"},
      {R"({"dtype":"F8","shape":[2],"data_offsets":[0,8]})", "tensor a: dtype F8"},
      {R"({"dtype":4,"shape":[2],"data_offsets":[0,8]})", "dtype is not a string"},
      {R"({"dtype":"F32","shape":"2","data_offsets":[0,8]})", "shape is not a list"},
      {R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", "shape is impossible"},
      {R"({"dtype":"F32","shape":[2.5],"data_offsets":[0,8]})", "shape is impossible"},
      {R"({"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,8]})",
       "shape is impossible"},
      {R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})",
       "shape is impossible"},
      {R"({"dtype":"F32","shape":[2],"data_offsets":[0]})", "data_offsets is not"},
      {R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "do not hold F32 of shape [2]"},
      {R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", "do not hold F32 of shape [3]"},
      {R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})", "begins at byte 4, where 0"},
      {R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})", "truncated"},
      {R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", "4 bytes follow"},
      {R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],)"
       R"("data_offsets":[4,8]})",
       "tensor b begins at byte 4, where 8"},
      {R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"k":1})",
       "__metadata__.k is not a string"},
      {R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":"k")",
       "__metadata__ is not an object"},
  };
  for (const BadHeader& bad : cases) {
    EXPECT_THAT(header_error(fmt::format(R"({{"a":{}}})", bad.tensor), 8), HasSubstr(bad.message))
        << bad.tensor;
  }
}

TEST(Safetensors, NothingAppearsWithoutAllAnnouncedValues) {
  const fs::path path = temp_file("unfinished");
  {
    SafetensorsWriter writer(path, {{"x", {3}}}, DType::kF32, {});
    writer.write(std::vector<float>{1, 2});
    EXPECT_THAT(error_of([&] { writer.commit(); }),
                AllOf(HasSubstr(path.string()), HasSubstr("3 values announced, 2 given")));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(path.string() + ".partial"));
}

TEST(Safetensors, WriterRefusesTwoTensorsOfOneName) {
  EXPECT_THAT(error_of([] {
                SafetensorsWriter(temp_file("twice"), {{"x", {1}}, {"x", {1}}}, DType::kF32, {});
              }),
              HasSubstr("two tensors are named x"));
}

TEST(Safetensors, ReadsFilesOfTheReferenceImplementation) {
  const SafetensorsReader reader(tests::source_file("tests/golden/llama_tied.safetensors"));
  EXPECT_EQ(reader.find("tokens").shape, (Shape{3, 17}));
  for (const int64_t token : reader.read_integers("tokens")) {
    EXPECT_GE(token, 0);
    EXPECT_LT(token, 61);
  }
  EXPECT_EQ(reader.find("model.embed_tokens.weight").shape, (Shape{61, 32}));
  const auto config = parse_json<nlohmann::json>(reader.metadata().at("config"));
  EXPECT_EQ(config["hidden_size"], 32);
  const double loss = std::stod(reader.metadata().at("loss"));
  EXPECT_FLOAT_EQ(reader.read_f32("loss").at(0), static_cast<float>(loss));
}

}  // namespace
}  // namespace thinwire::tensor
