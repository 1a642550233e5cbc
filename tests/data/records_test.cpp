#include "thinwire/data/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tests/data/scratch.h"
#include "thinwire/data/chat/chat_template.h"
#include "thinwire/data/encoder.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

using config::RecordKind;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + "
    "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

config::DataSection section(RecordKind kind) {
  config::DataSection data;
  data.records = kind;
  return data;
}

tl::expected<Record, std::string> read_chat(const std::string& line, const char* source = kChatMl) {
  return RecordReader(section(RecordKind::kChats),
                      std::make_shared<ChatTemplate>(source, "<s>", "</s>"))
      .read(line);
}

tl::expected<Record, std::string> read_prompt(const std::string& line,
                                              const std::string& answer = "") {
  config::DataSection data = section(RecordKind::kPrompts);
  data.answer_field = answer;
  return RecordReader(data, nullptr).read(line);
}

// The parts that are learnt, each followed by |.
std::string learnt(const Record& record) {
  std::string parts;
  for (const auto& [begin, end] : record.learnt) {
    parts += record.text.substr(begin, end - begin) + "|";
  }
  return parts;
}

// As Mistral's: a system prompt stands in the last turn of the user, and nowhere once it has been
// answered.
constexpr const char* kSystemInLastTurn =
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}"
    "{% set messages = messages[1:] %}{% endif %}{{ bos_token }}{% for message in messages %}"
    "{% if message.role == 'user' %}[INST] {% if loop.last and system is defined %}"
    "{{ system + '\n\n' }}{% endif %}{{ message.content }}[/INST]"
    "{% else %} {{ message.content|trim + eos_token }}{% endif %}{% endfor %}";

TEST(Records, ASystemPromptInTheLastTurnIsReadBeforeTheLastAnswer) {
  const auto one = read_chat(
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "A"},
          {"role": "assistant", "content": "B "}]})",
      kSystemInLastTurn);
  ASSERT_TRUE(one) << one.error();
  EXPECT_EQ(one->text, "<s>[INST] S\n\nA[/INST] B</s>");
  EXPECT_EQ(learnt(*one), " B</s>|");
  const auto two = read_chat(
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "B"},
          {"role": "assistant", "content": "B"}, {"role": "user", "content": "C"},
          {"role": "assistant", "content": "D"}]})",
      kSystemInLastTurn);
  ASSERT_TRUE(two) << two.error();
  EXPECT_EQ(two->text, "<s>[INST] B[/INST] B</s>[INST] S\n\nC[/INST] D</s>");
  EXPECT_EQ(learnt(*two), " B</s>| D</s>|");
}

TEST(Records, AnswersThatAreRenderedOtherwiseLaterAreRefused) {
  const auto record = read_chat(
      R"({"messages": [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"},
          {"role": "user", "content": "C"}, {"role": "assistant", "content": "D"}]})",
      "{% for message in messages %}{{ message.role }}:"
      "{% if message.role == 'user' or loop.last %}{{ message.content }}{% endif %}|{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% endif %}");
  ASSERT_FALSE(record);
  EXPECT_THAT(record.error(), HasSubstr("cannot be divided"));
}

TEST(ChatTemplate, SaysWhatEndsATurn) {
  EXPECT_EQ(ChatTemplate(kChatMl, "", "").behind_answer(), "<|im_end|>");
  const auto end = [](const char* source) {
    return ChatTemplate(source, "", "</s>").behind_answer();
  };
  EXPECT_EQ(end("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"), "\n");
  EXPECT_EQ(end("{% for m in messages %}{{ m.content + eos_token + ' ' }}{% endfor %}"), "</s>");
  EXPECT_EQ(end("{{ raise_exception('no') }}"), "");
}

TEST(ChatTemplate, APromptEndsWhereTheAnswerBegins) {
  const auto messages = nlohmann::ordered_json::parse(R"([{"role": "user", "content": "Hi"}])");
  EXPECT_EQ(ChatTemplate(kChatMl, "", "").prompt(messages),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  const auto refused = ChatTemplate("{{ raise_exception('no') }}", "", "").prompt(messages);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), HasSubstr("cannot be rendered"));
}

TEST(Records, AnswersOfPromptsAreLearnt) {
  for (const char* field : {"completion", "answer", "out"}) {
    const auto record = read_prompt(fmt::format(R"({{"prompt": "2+2=", "{}": " 4"}})", field),
                                    field == std::string("out") ? "out" : "");
    ASSERT_TRUE(record) << record.error();
    EXPECT_EQ(record->text, "2+2= 4");
    EXPECT_EQ(learnt(*record), " 4|");
  }
}

TEST(Records, OfChatsWhatTheAssistantSaysIsLearnt) {
  const auto record = read_chat(
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"},
          {"role": "user", "content": "Bye"}, {"role": "assistant", "content": "Ciao"}]})");
  ASSERT_TRUE(record) << record.error();
  EXPECT_EQ(learnt(*record), "Yes?<|im_end|>\n|Ciao<|im_end|>\n|");
}

TEST(Records, AnAnswerOfWeightZeroIsNotLearnt) {
  const auto record = read_chat(
      R"({"messages": [{"role": "assistant", "content": "No", "weight": 0},
          {"role": "user", "content": "?"}, {"role": "assistant", "content": "Go", "weight": 1}]})");
  ASSERT_TRUE(record) << record.error();
  EXPECT_EQ(learnt(*record), "Go<|im_end|>\n|");
}

TEST(Records, AGenerationBlockSaysWhatIsLearnt) {
  const auto record = read_chat(
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]})",
      "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}{% generation %}"
      "{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{{ eos_token }}"
      "{% endfor %}");
  ASSERT_TRUE(record) << record.error();
  EXPECT_EQ(record->text, "[user]Hi</s>[assistant]Yes?</s>");
  EXPECT_EQ(learnt(*record), "Yes?|");
}

TEST(Records, WhatIsWrongWithALineIsSaid) {
  const auto prompt = [](const char* line) { return read_prompt(line).error(); };
  EXPECT_THAT(prompt("{"), HasSubstr("is not JSON"));
  EXPECT_THAT(prompt(R"({"prompt": "a"})"), HasSubstr("no field \"completion\""));
  EXPECT_THAT(prompt(R"({"completion": "a"})"), HasSubstr("no field \"prompt\""));
  EXPECT_THAT(prompt(R"({"prompt": 1, "answer": "a"})"),
              HasSubstr("other than text as \"prompt\""));
  EXPECT_THAT(prompt(R"({"prompt": "a", "answer": " "})"), HasSubstr("empty \"answer\""));
  EXPECT_THAT(prompt(R"({"prompt": "a", "answer": "b", "completion": "c"})"),
              HasSubstr("has both"));
  EXPECT_THAT(prompt(R"({"messages": []})"), HasSubstr("one kind of records"));
  const auto chat = [](const char* line) { return read_chat(line).error(); };
  EXPECT_THAT(chat(R"({"prompt": "a", "answer": "b"})"), HasSubstr("one kind of records"));
  EXPECT_THAT(chat(R"({"messages": "a"})"), HasSubstr("other than a list"));
  EXPECT_THAT(chat(R"({"messages": ["a"]})"), HasSubstr("message 0 that is no object"));
  EXPECT_THAT(chat(R"({"messages": [{"content": "a"}]})"), HasSubstr("message 0 without \"role\""));
  EXPECT_THAT(chat(R"({"messages": [{"role": "user", "content": [1]}]})"),
              HasSubstr("\"content\" is not text"));
  EXPECT_THAT(chat(R"({"messages": [{"role": "user", "content": "a"}]})"),
              HasSubstr("no message of role \"assistant\""));
  EXPECT_THAT(chat(R"({"messages": [{"role": "assistant", "content": ""}]})"),
              HasSubstr("empty answer, message 0"));
}

TEST(Records, ATemplateThatChangesEarlierMessagesNeedsGenerationMarks) {
  const auto record = read_chat(
      R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"},
                       {"role": "assistant", "content": "c"}]})",
      "{% for m in messages %}{{ loop.revindex }}{{ m.content }}{% endfor %}");
  EXPECT_THAT(record.error(),
              AllOf(HasSubstr("earlier messages are rendered otherwise"), HasSubstr("generation")));
}

TEST(ChatTemplate, WhatIsNotSupportedIsNamed) {
  const auto fault = [](const char* source) {
    return error_of([&] { const ChatTemplate chat(source, "", ""); });
  };
  EXPECT_THAT(fault("a\n{% macro x() %}"), AllOf(HasSubstr("line 2"), HasSubstr("macro")));
  EXPECT_THAT(fault("{% if a %}b"), HasSubstr("endif"));
  EXPECT_THAT(fault("{{ 'a }}"), HasSubstr("string does not end"));
  EXPECT_THAT(fault("{{ a b }}"), HasSubstr("'b' is not expected"));
  EXPECT_THAT(fault(("{{ " + std::string(100'000, '(')).c_str()), HasSubstr("a tag of more than"));
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "{% if a %}";
  EXPECT_THAT(fault(deep.c_str()), HasSubstr("more than 100 nested statements"));
  // In time that grows with the template, not with its square.
  std::string many;
  for (int i = 0; i < 200'000; ++i) many += "{{ a }}\n";
  EXPECT_THAT(fault((many + "{{ 'a }}").c_str()), HasSubstr("line 200001"));
  const std::string line = R"({"messages": [{"role": "assistant", "content": "a"}]})";
  EXPECT_THAT(read_chat(line, "{{ messages|groupby('role') }}").error(), HasSubstr("groupby"));
  EXPECT_THAT(read_chat(line, "{{ strftime_now('%d') }}").error(), HasSubstr("strftime_now"));
  EXPECT_THAT(read_chat(line, "{{ raise_exception('no system') }}").error(),
              HasSubstr("refuses it: no system"));
  EXPECT_THAT(error_of([] { make_record_reader(section(RecordKind::kChats)); }),
              HasSubstr("needs a chat template"));
}

TEST(ChatTemplate, KeepsAndTakesSpaceAsJinjaDoes) {
  const Template text("a\n  {% if true %}\n b {{- ' c ' -}} \n d\n  {%- endif %}\ne {# f #}\n\n");
  EXPECT_EQ(text.render(nlohmann::ordered_json::object()).text, "a\n b c de ");
}

TEST(Encoder, MarksTheTokensOfARange) {
  const fs::path folder = scratch_folder();
  write_file(folder / kByteFile, byte_vocabulary_json());
  const auto vocabulary = Vocabulary::load(folder);
  std::vector<int32_t> tokens;
  std::vector<bool> inside;
  Encoder(*vocabulary).encode("abcdef", {{1, 2}, {4, 6}}, tokens, inside);
  EXPECT_EQ(tokens.size(), 6u);
  EXPECT_EQ(inside, (std::vector<bool>{false, true, false, false, true, true}));
}

config::DataSection prompts_in(const fs::path& folder, const std::string& lines) {
  write_file(folder / "lines.jsonl", lines);
  config::DataSection data = section(RecordKind::kPrompts);
  data.dir = (folder / "tokens").string();
  data.text = {(folder / "lines.jsonl").string()};
  data.vocabulary = config::VocabularyKind::kByte;
  data.validation_fraction = 0;
  return data;
}

TEST(PrepareRecords, WritesAnswersAndTheirEndAsLearnt) {
  const fs::path folder = scratch_folder();
  const auto data = prompts_in(folder,
                               "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n"
                               "{\"prompt\": \"e\", \"completion\": \"f\"}\n");
  EXPECT_EQ(prepare(data, {.threads = 1}).unit, "record");
  EXPECT_EQ(read_prepared(data.dir).unit, "record");
  const ShardReader shard(fs::path(data.dir) / "train" / shard_name(0));
  EXPECT_EQ(shard.lengths(), (std::vector<uint32_t>{6, 4}));
  std::vector<int32_t> first(1);
  shard.read(0, first);
  EXPECT_EQ(first[0], Vocabulary::load(data.dir)->begin());
  std::string mask;
  for (uint64_t i = 0; i < shard.tokens(); ++i) mask += shard.learnt(i) ? '1' : '0';
  EXPECT_EQ(mask, "0001110011");
}

TEST(PrepareRecords, BadLinesAreErrorsOrSkippedAndCounted) {
  const fs::path folder = scratch_folder();
  auto data = prompts_in(folder,
                         "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n"
                         "{\"prompt\": \"e\", \"completion\": \"\"}\n");
  EXPECT_THAT(error_of([&] { prepare(data, {.threads = 1}); }),
              AllOf(HasSubstr("lines.jsonl: line 2"), HasSubstr("empty \"completion\"")));
  EXPECT_FALSE(fs::exists(data.dir));
  data.bad_lines = config::BadLines::kSkip;
  EXPECT_EQ(prepare(data, {.threads = 1}).skipped.count, 1u);
  write_file(folder / "text.txt", "text\n");
  data.text = {(folder / "text.txt").string()};
  EXPECT_THAT(error_of([&] { prepare(data, {.force = true, .threads = 1}); }),
              HasSubstr("data.records asks for records"));
}

}  // namespace
}  // namespace thinwire::data
