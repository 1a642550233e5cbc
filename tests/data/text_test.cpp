#include "thinwire/data/text.h"

#include <bzlib.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>

#include "tests/data/scratch.h"
#include "tests/sanitized.h"
#include "thinwire/data/split.h"
#include "thinwire/data/utf8.h"

namespace thinwire::data {
namespace {

using config::DocumentEnd;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> documents_of(const std::vector<std::string>& paths,
                                      const TextOptions& options = {}) {
  DocumentSource source(list_inputs(paths), options);
  std::vector<std::string> documents;
  while (auto document = source.next()) documents.push_back(*document);
  EXPECT_EQ(source.bytes_read(), source.total_bytes());
  return documents;
}

std::vector<std::string> split(std::string_view text, DocumentEnd document) {
  const fs::path file = scratch_folder() / "a.txt";
  write_file(file, text);
  return documents_of({file.string()}, {.document = document});
}

std::string gzip(const std::string& text) {
  std::string out(text.size() + 200, '\0');
  z_stream state{};
  deflateInit2(&state, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

std::string bzip2(const std::string& text) {
  std::string out(text.size() + text.size() / 100 + 600, '\0');  // enough, by the library's manual
  auto size = static_cast<unsigned>(out.size());
  std::string in = text;
  EXPECT_EQ(BZ2_bzBuffToBuffCompress(out.data(), &size, in.data(), static_cast<unsigned>(in.size()),
                                     9, 0, 0),
            BZ_OK);
  out.resize(size);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string error_for(const std::string& name, std::string_view content,
                      const TextOptions& options = {}) {
  const fs::path file = scratch_folder() / name;
  write_file(file, content);
  const std::string error = error_of([&] { documents_of({file.string()}, options); });
  EXPECT_THAT(error, HasSubstr(name));
  return error;
}

TEST(Text, StandInsForFilesAreRefused) {
  const fs::path folder = scratch_folder();
  write_file(folder / "a.txt", "text");
  write_file(folder / "b.jsonl.gz", "version https://git-lfs.github.com/spec/v1\noid sha256:4d\n");
  const auto error = [&] { return error_of([&] { list_inputs({folder.string()}); }); };
  EXPECT_THAT(error(), HasSubstr("b.jsonl.gz: it is a git-lfs pointer"));
  fs::remove(folder / "b.jsonl.gz");
  fs::create_symlink("nothing", folder / "c.txt");
  EXPECT_THAT(error(), HasSubstr("c.txt: it is a link to nothing, which does not exist"));
}

TEST(Documents, EndAtBlankLines) {
  EXPECT_THAT(split("\n\n  one\nstill one \n \t\n\n\ntwo\r\n\r\nthree", DocumentEnd::kBlankLine),
              ElementsAre("  one\nstill one", "two", "three"));
}

TEST(Documents, EndWhereAnUnindentedEntryFollowsABlankLine) {
  EXPECT_THAT(
      split("Germ\n   bud\n\n   {Germ cell} egg\nsame\n\nGerman\n   kin\n", DocumentEnd::kEntry),
      ElementsAre("Germ\n   bud\n\n   {Germ cell} egg\nsame", "German\n   kin"));
}

TEST(Documents, EndAtSeparators) {
  EXPECT_THAT(split("one\n\nstill one\n<|endoftext|>\n  two\n </s>\r\n\nthree <|endoftext|>\n"
                    "<|end_of_text|>\n<|endoftext|>\nfour",
                    DocumentEnd::kSeparator),
              ElementsAre("one\n\nstill one", "  two", "three <|endoftext|>", "four"));
}

TEST(Documents, SeparatorsThatAreTakenForTextAreNoticed) {
  const fs::path file = scratch_folder() / "a.txt";
  write_file(file, "one\n\n <|endoftext|> \ntwo\n</s>\n");
  const auto note = [&](DocumentEnd document) {
    DocumentSource source(list_inputs({file.string()}), {.document = document});
    while (source.next()) {
    }
    return source.separator_note();
  };
  EXPECT_EQ(note(DocumentEnd::kBlankLine),
            file.string() +
                ": line 3 is <|endoftext|>, which is taken for text; "
                "data.document=separator ends a document at such a line "
                "and leaves it out");
  EXPECT_EQ(note(DocumentEnd::kSeparator), "");
  write_file(file, "one <|endoftext|>\n<endoftext>\n");
  EXPECT_EQ(note(DocumentEnd::kLine), "");
}

TEST(Documents, EndWithTheirLine) {
  EXPECT_THAT(split("one\n\n two\nthree", DocumentEnd::kLine), ElementsAre("one", " two", "three"));
}

TEST(Documents, EndWithTheirFile) {
  EXPECT_THAT(split("one\n\ntwo\n\n", DocumentEnd::kFile), ElementsAre("one\n\ntwo"));
}

TEST(Documents, AByteOrderMarkIsDropped) {
  EXPECT_THAT(split("\xEF\xBB\xBFone", DocumentEnd::kLine), ElementsAre("one"));
}

// JSON says exactly what the text is, and tokens are made of all of it.
TEST(Documents, OfJsonLinesKeepTheWhiteSpaceAtTheirEnds) {
  const fs::path file = scratch_folder() / "a.jsonl";
  write_file(file, R"({"text": "\n\n one\r\n "})"
                   "\n"
                   R"({"text": " \n"})"
                   "\n"
                   R"({"text": "two"})");
  EXPECT_THAT(documents_of({file.string()}), ElementsAre("\n\n one\r\n ", "two"));
}

TEST(Documents, FoldersAreReadInSortedOrderWithEveryCompression) {
  const fs::path folder = scratch_folder();
  write_file(folder / "b" / "2.txt.gz", gzip("two"));
  write_file(folder / "b" / "3.txt.zst", zstd("three"));
  write_file(folder / "a.jsonl", "{\"text\": \"one\"}\n\n{\"text\": \"and a half\"}");
  write_file(folder / "b" / "4.txt.bz2", bzip2("three and a half"));
  write_file(folder / "c.jsonl.gz", gzip("{\"text\": \"four\"}"));
  write_file(folder / "notes.md", "not text for us");
  EXPECT_THAT(documents_of({folder.string()}),
              ElementsAre("one", "and a half", "two", "three", "three and a half", "four"));
}

TEST(Documents, StreamingThroughChunksGivesTheWholeText) {
  // Lines of many lengths, with characters that are cut by chunk borders.
  std::string text;
  for (size_t i = 1; text.size() < 400'000; i = i * 3 % 9973 + 1) {
    for (size_t j = 0; j < i; ++j) text += "\u20ac";
    text += '\n';
  }
  const fs::path folder = scratch_folder();
  write_file(folder / "a.txt", text);
  write_file(folder / "a.txt.gz", gzip(text.substr(0, 1000)) + gzip(text.substr(1000)));
  write_file(folder / "a.txt.bz2", bzip2(text.substr(0, 1000)) + bzip2(text.substr(1000)));
  write_file(folder / "a.txt.zst", zstd(text.substr(0, 1000)) + zstd(text.substr(1000)));
  text.pop_back();
  for (const char* name : {"a.txt", "a.txt.gz", "a.txt.bz2", "a.txt.zst"}) {
    EXPECT_THAT(documents_of({folder / name}, {.document = DocumentEnd::kFile}), ElementsAre(text))
        << name;
  }
}

TEST(Documents, MemoryIsBoundedWhenThereIsNoLineBreak) {
  if (tests::kSanitized) GTEST_SKIP() << "a sanitizer holds on to freed memory";
  const fs::path file = scratch_folder() / "a.txt.gz";
  write_file(file, gzip(std::string(32 << 20, 'x')));
  const uint64_t before = peak_memory_bytes();
  DocumentSource source(list_inputs({file.string()}), {.max_document_bytes = 1 << 20});
  uint64_t bytes = 0;
  while (auto document = source.next()) {
    EXPECT_LE(document->size(), size_t{1} << 20);
    bytes += document->size();
  }
  EXPECT_EQ(bytes, uint64_t{32} << 20);
  EXPECT_LT(peak_memory_bytes() - before, uint64_t{16} << 20);
}

TEST(Documents, CuttingKeepsCharactersWhole) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "\u20ac";
  const fs::path file = scratch_folder() / "a.txt";
  write_file(file, text);
  std::string joined;
  for (const auto& document : documents_of({file.string()}, {.max_document_bytes = 64})) {
    EXPECT_LE(document.size(), 64u);
    EXPECT_EQ(valid_utf8_prefix(document), document.size());
    joined += document;
  }
  EXPECT_EQ(joined, text);
}

TEST(Documents, InvalidUtf8IsAnErrorWithItsOffset) {
  EXPECT_THAT(error_for("a.txt", "one\n\nt\xE9wo"),
              AllOf(HasSubstr("byte 6 (0xE9, line 3)"), HasSubstr("data.invalid_utf8")));
  EXPECT_THAT(error_for("b.txt", "\xEF\xBB\xBFxy\xE2\x82"), HasSubstr("byte 5 (0xE2"));
  EXPECT_THAT(error_for("c.jsonl", "{\"text\": \"\xFF\"}"), HasSubstr("byte 10 (0xFF"));
}

TEST(Documents, InvalidUtf8IsReplacedAndCountedWhereAllowed) {
  const fs::path file = scratch_folder() / "a.txt";
  write_file(file, "a\xE9 b\n\nc\xE2\x82\n\nd\xF0");
  DocumentSource source(list_inputs({file.string()}), {.replace_invalid = true});
  EXPECT_EQ(source.next(), "a\uFFFD b");
  EXPECT_EQ(source.next(), "c\uFFFD");
  EXPECT_EQ(source.next(), "d\uFFFD");
  EXPECT_EQ(source.next(), std::nullopt);
  EXPECT_EQ(source.replaced(), 3u);
}

TEST(Documents, BinaryFilesAreErrors) {
  const std::string bytes("text\n\n\xFF\xFE\0x", 10);
  EXPECT_THAT(error_for("a.txt", bytes), AllOf(HasSubstr("byte 8"), HasSubstr("binary")));
  EXPECT_THAT(error_for("b.txt", bytes, {.replace_invalid = true}), HasSubstr("binary"));
  EXPECT_THAT(error_for("c.jsonl", R"({"text": "a\u0000b"})"), HasSubstr("line 1 holds a NUL"));
}

TEST(Documents, TextsInUtf16AreToldHowToBeConverted) {
  const auto error = [](std::string_view bytes) { return error_for("a.txt", std::string(bytes)); };
  EXPECT_THAT(error({"\xFF\xFEO\0n\0", 6}),
              AllOf(HasSubstr("is in UTF-16"), HasSubstr("`iconv -f UTF-16 -t UTF-8 ")));
  EXPECT_THAT(error({"\xFE\xFF\0O\0n", 6}), HasSubstr("iconv -f UTF-16 "));
  EXPECT_THAT(error({"\xFF\xFE\x4E\x4E\x4E\x4E", 6}), HasSubstr("iconv -f UTF-16 "));
  EXPECT_THAT(error({"O\0n\0", 4}), HasSubstr("iconv -f UTF-16LE "));
  EXPECT_THAT(error({"\0O\0n", 4}), HasSubstr("iconv -f UTF-16BE "));
  EXPECT_THAT(error({"\x7F\0n\0", 4}), HasSubstr("binary"));
  EXPECT_THAT(error({"\xFF\xFE\0\0O\0\0\0", 8}), HasSubstr("binary"));
}

TEST(Documents, EmptyFilesAreErrors) {
  EXPECT_THAT(error_for("a.txt", ""), HasSubstr("is empty"));
  EXPECT_THAT(error_for("b.txt", " \n\n\t\n"), HasSubstr("is empty"));
  EXPECT_THAT(error_for("c.jsonl", "{\"text\": \" \"}"), HasSubstr("is empty"));
  EXPECT_THAT(error_for("d.txt.gz", ""), HasSubstr("is empty"));
  EXPECT_THAT(error_for("e.txt.zst", ""), HasSubstr("is empty"));
}

TEST(Documents, BadJsonLinesAreErrorsWithTheirNumber) {
  const std::string good = "{\"text\": \"a\"}\n\n";
  EXPECT_THAT(error_for("a.jsonl", good + "{\"text\": \"a\""), HasSubstr("line 3 is not JSON"));
  EXPECT_THAT(error_for("b.jsonl", good + "[1]"), HasSubstr("line 3 is not a JSON object"));
  EXPECT_THAT(error_for("c.jsonl", good + "{\"txt\": 1}"), HasSubstr("no field \"text\""));
  EXPECT_THAT(error_for("d.jsonl", good + "{\"text\": 1}"), HasSubstr("other than text"));
  EXPECT_THAT(error_for("e.jsonl", R"({"text": "\ud800"})"), HasSubstr("line 1 is not JSON"));
  EXPECT_THAT(error_for("f.jsonl", std::string(300, ' ') + good, {.max_document_bytes = 200}),
              HasSubstr("line 1 is longer"));
}

TEST(Documents, BadJsonLinesAreSkippedAndCountedWhereAllowed) {
  const fs::path file = scratch_folder() / "a.jsonl";
  const auto good = [](const char* text) { return fmt::format("{{\"text\": \"{}\"}}\n", text); };
  const std::string nul(1, '\0');
  write_file(file, good("one") + "{\"text\"\n" + "{}\n" + good("\xFF") + good("two") +
                       std::string(500, 'x') + "\n\n" + nul + "\n" + "[1]\n" + good("three") +
                       "{\"te");
  DocumentSource source(list_inputs({file.string()}),
                        {.skip_bad_lines = true, .max_document_bytes = 200});
  std::vector<std::string> documents;
  while (auto document = source.next()) documents.push_back(*document);
  EXPECT_THAT(documents, ElementsAre("one", "two", "three"));
  EXPECT_EQ(source.skipped().count, 7u);
  EXPECT_THAT(
      source.skipped().first,
      ElementsAre(HasSubstr("a.jsonl: line 2 is not JSON"),
                  HasSubstr("line 3 has no field \"text\""), HasSubstr("line 4 is not UTF-8"),
                  HasSubstr("line 6 is longer than"), HasSubstr("line 8 holds a NUL byte")));
}

TEST(Documents, AFileOfBadLinesAloneIsAnError) {
  EXPECT_THAT(error_for("a.jsonl", "{\"body\": \"x\"}\n{}\n", {.skip_bad_lines = true}),
              AllOf(HasSubstr("skipped 2 lines"), HasSubstr("data.text_field = \"text\"")));
}

TEST(Documents, TheFieldOfJsonLinesCanBeChosen) {
  const fs::path file = scratch_folder() / "a.jsonl";
  write_file(file, R"({"text": "no", "body": "yes\nand"})");
  EXPECT_THAT(documents_of({file.string()}, {.text_field = "body"}), ElementsAre("yes\nand"));
}

TEST(Documents, DamagedCompressionIsAnError) {
  const std::string text(5000, 'a');
  for (const auto& [name, packed] :
       {std::pair<std::string, std::string>{"a.txt.gz", gzip(paragraphs(100))},
        std::pair<std::string, std::string>{"a.txt.bz2", bzip2(paragraphs(100))},
        std::pair<std::string, std::string>{"a.txt.zst", zstd(paragraphs(100))}}) {
    EXPECT_THAT(error_for(name, packed.substr(0, packed.size() / 2)), HasSubstr("is truncated"));
    EXPECT_THAT(error_for(name, packed + "garbage"), HasSubstr("is damaged"));
    EXPECT_THAT(error_for(name, text), HasSubstr("is damaged"));
  }
}

TEST(Documents, FilesOfTheSameTextAreAnErrorHoweverTheyAreCompressed) {
  const fs::path folder = scratch_folder();
  const std::string text = paragraphs(5000);
  write_file(folder / "a.txt", text);
  write_file(folder / "b.txt", text + "and more");
  EXPECT_NO_THROW(documents_of({folder.string()}));
  write_file(folder / "a.txt.gz", gzip(text));
  EXPECT_THAT(error_of([&] { documents_of({folder.string()}); }),
              AllOf(HasSubstr("a.txt and "), HasSubstr("a.txt.gz hold the same text"),
                    HasSubstr("both training and validation")));
  for (int copy = 0; copy < 6; ++copy) write_file(folder / fmt::format("c{}.txt", copy), text);
  EXPECT_THAT(error_of([&] { documents_of({folder.string()}); }),
              AllOf(HasSubstr("7 files hold the same text as another file; text"),
                    HasSubstr("c3.txt"), Not(HasSubstr("c4.txt"))));
}

TEST(Inputs, AFileThatIsNamedTwiceIsAnError) {
  const fs::path folder = scratch_folder();
  const std::string file = folder / "a.txt";
  write_file(file, "text");
  EXPECT_THAT(error_of([&] { list_inputs({file, file}); }), HasSubstr("a.txt is given twice"));
  fs::create_symlink("a.txt", folder / "b.txt");
  EXPECT_THAT(error_of([&] { list_inputs({folder.string()}); }),
              AllOf(HasSubstr("b.txt are the same file"), HasSubstr("give it once")));
  fs::remove(folder / "b.txt");
  EXPECT_THAT(error_of([&] {
                list_inputs({file, folder.string() + "/./a.txt"});
              }),
              HasSubstr("are the same file"));
}

TEST(Inputs, MissingUnknownAndEmptyPlacesAreErrors) {
  const fs::path folder = scratch_folder();
  EXPECT_THAT(error_of([&] { list_inputs({folder / "no.txt"}); }),
              AllOf(HasSubstr("no.txt"), HasSubstr("there is no file")));
  EXPECT_THAT(error_of([&] { list_inputs({folder.string()}); }), HasSubstr("holds no text"));
  write_file(folder / "a.pdf", "x");
  EXPECT_THAT(error_of([&] { list_inputs({folder / "a.pdf"}); }),
              AllOf(HasSubstr("a.pdf"), HasSubstr(".jsonl")));
}

TEST(TextSample, IsEvenBoundedAndInOrder) {
  TextSample sample(20'000);
  for (int i = 0; i < 10'000; ++i) sample.add(fmt::format("{:010d}", i));
  const auto texts = sample.take();
  EXPECT_EQ(texts.size(), 2000u);
  EXPECT_TRUE(std::ranges::is_sorted(texts));
  const auto first_half = std::ranges::lower_bound(texts, "0000005000") - texts.begin();
  EXPECT_NEAR(static_cast<double>(first_half), 1000, 100);
}

TEST(TextSample, KeepsEverythingThatFits) {
  TextSample sample(1 << 20);
  std::string whole;
  for (int i = 0; i < 1000; ++i) whole += "\u20acword word\n";
  sample.add(whole);
  sample.add(std::string(5000, 'x'));
  std::string joined;
  for (const std::string& text : sample.take()) {
    EXPECT_LE(text.size(), 4096u);
    EXPECT_EQ(valid_utf8_prefix(text), text.size());
    joined += text;
  }
  EXPECT_EQ(joined, whole + std::string(5000, 'x'));
}

}  // namespace
}  // namespace thinwire::data
