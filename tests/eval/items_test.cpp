#include "thinwire/eval/items.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/paths.h"
#include "thinwire/base/error.h"
#include "thinwire/eval/task.h"

namespace thinwire::eval {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ItemsTest : public testing::Test {
 protected:
  ItemsTest()
      : folder_(tests::memory_folder() /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    write_file(folder_ / name, text);
  }
  std::vector<Item> read(const std::string& task, int64_t limit = 0) {
    return read_items(find_task(task), folder_, limit).items;
  }
  // A task file of one source with these further lines.
  std::string task_file(const std::string& lines) {
    write("my.toml", "[[source]]\nfile = \"my.jsonl\"\n" + lines);
    return (folder_ / "my.toml").string();
  }

  fs::path folder_;
};

std::vector<std::string> contexts(const Item& item) {
  std::vector<std::string> texts;
  for (const Choice& choice : item.choices) texts.push_back(choice.context);
  return texts;
}

std::vector<std::string> continuations(const Item& item) {
  std::vector<std::string> texts;
  for (const Choice& choice : item.choices) texts.push_back(choice.continuation);
  return texts;
}

constexpr const char* kArc =
    R"({"question": {"stem": "Why?", "choices": [{"text": "so", "label": "A"}, )"
    R"({"text": "because", "label": "B"}]}, "answerKey": "B"})";

TEST_F(ItemsTest, ArcAndOpenBookQa) {
  write("arc/ARC-Easy-Dev.jsonl", std::string(kArc) + "\n\n");
  write("openbookqa/dev.jsonl", kArc);
  const auto arc = read("arc_easy");
  ASSERT_EQ(arc.size(), 1u);
  EXPECT_THAT(contexts(arc[0]), testing::Each("Question: Why?\nAnswer:"));
  EXPECT_THAT(continuations(arc[0]), ElementsAre(" so", " because"));
  EXPECT_EQ(arc[0].choices[1].characters, 7);
  EXPECT_EQ(arc[0].answer, 1);
  EXPECT_THAT(contexts(read("openbookqa")[0]), testing::Each("Why?"));
}

TEST_F(ItemsTest, PiqaHasItsAnswersInAFileOfTheirOwn) {
  write("piqa/valid.jsonl", R"({"goal": "Do", "sol1": "a", "sol2": "b"})"
                            "\n"
                            R"({"goal": "Do", "sol1": "a", "sol2": "b"})");
  write("piqa/valid-labels.lst", "1\n0\n");
  EXPECT_THAT(read("piqa"), ElementsAre(Field(&Item::answer, 1), Field(&Item::answer, 0)));
  EXPECT_EQ(read("piqa", 1).size(), 1u);
  write("piqa/valid-labels.lst", "1\n");
  EXPECT_THAT([&] { read("piqa"); }, ThrowsMessage<Error>(HasSubstr("no answer to")));
  write("piqa/valid-labels.lst", "1\n0\n\n1\n");
  EXPECT_THAT([&] { read("piqa"); },
              ThrowsMessage<Error>(HasSubstr("line 4: an answer to no record")));
}

TEST_F(ItemsTest, WinoGrandeScoresTheRestAfterEitherOption) {
  write("winogrande/dev.jsonl",
        R"({"sentence": "A saw B, so _ hid.", "option1": "A", "option2": "B", "answer": "2"})");
  const auto items = read("winogrande");
  EXPECT_THAT(contexts(items[0]), ElementsAre("A saw B, so A", "A saw B, so B"));
  EXPECT_THAT(continuations(items[0]), testing::Each(" hid."));
  EXPECT_EQ(items[0].answer, 1);
}

TEST_F(ItemsTest, HellaSwagInBothForms) {
  write("hellaswag/hellaswag_val_full.txt", "Roof: He sits. he\n1\nruns.\nfalls  [x]off.\nc\nd\n");
  const auto text = read("hellaswag");
  EXPECT_THAT(contexts(text[0]), testing::Each("Roof: He sits. he"));
  EXPECT_THAT(continuations(text[0]), ElementsAre(" runs.", " falls off.", " c", " d"));
  EXPECT_EQ(text[0].answer, 1);
  write("hellaswag/hellaswag_val.jsonl",
        R"({"activity_label": "Roof", "ctx_a": "He sits.", "ctx_b": "he", "label": 3,)"
        R"( "endings": ["a", "b", "c", "d"]})");
  const auto json = read("hellaswag");
  EXPECT_THAT(contexts(json[0]), testing::Each("Roof: He sits. He"));
  EXPECT_EQ(json[0].answer, 3);
}

TEST_F(ItemsTest, LambadaHasNoChoices) {
  write("lambada/lambada_test_plain_text.txt", "they went home\n");
  const auto items = read("lambada");
  EXPECT_EQ(items[0].answer, -1);
  EXPECT_THAT(contexts(items[0]), ElementsAre("they went"));
  EXPECT_THAT(continuations(items[0]), ElementsAre(" home"));
}

TEST_F(ItemsTest, NamesWhatIsMissing) {
  EXPECT_THAT([&] { read("arc_easy"); }, ThrowsMessage<Error>(testing::AllOf(
                                             HasSubstr("has no arc/ARC-Easy-Dev.jsonl"),
                                             HasSubstr("; --data names the folder that has it"))));
  const fs::path nowhere = folder_ / "nowhere";
  EXPECT_THAT([&] { read_items(find_task("piqa"), nowhere); },
              ThrowsMessage<Error>(HasSubstr("there is no folder")));
  write("arc/ARC-Easy-Dev.jsonl", std::string(kArc) + "\n" + R"({"question": {"stem": "x"}})");
  EXPECT_THAT([&] { read("arc_easy"); },
              ThrowsMessage<Error>(
                  HasSubstr("ARC-Easy-Dev.jsonl: line 2: there is no field 'question.choices'")));
  EXPECT_EQ(read("arc_easy", 1).size(), 1u);  // what follows is not read
  write("arc/ARC-Easy-Dev.jsonl", "{\"question\": \n");
  EXPECT_THAT([&] { read("arc_easy"); }, ThrowsMessage<Error>(HasSubstr("line 1: not a JSON")));
  write("arc/ARC-Easy-Dev.jsonl", "\n");
  EXPECT_THAT([&] { read("arc_easy"); }, ThrowsMessage<Error>(HasSubstr("has no records")));
  std::string other = kArc;
  write("arc/ARC-Easy-Dev.jsonl", other.replace(other.size() - 3, 1, "E"));
  EXPECT_THAT([&] { read("arc_easy"); },
              ThrowsMessage<Error>(HasSubstr("the answer is 'E', which is not one of A, B")));
  write("hellaswag/hellaswag_val_full.txt", "context\n1\nruns.\n");
  EXPECT_THAT([&] { read("hellaswag"); },
              ThrowsMessage<Error>(HasSubstr("ends before the record's ending1")));
}

TEST_F(ItemsTest, AnyTaskFileByItsPath) {
  write("my.jsonl", R"({"q": "One and", "a": "two"})");
  const std::string file =
      task_file("contexts = [\"{q}\"]\ncontinuations = [\"{a}\"]\nmetrics = [\"perplexity\"]\n");
  const TaskItems items = read_items(find_task(file), folder_);
  EXPECT_EQ(items.task, "my");
  EXPECT_THAT(items.metrics, ElementsAre("perplexity"));
  EXPECT_THAT(continuations(items.items[0]), ElementsAre(" two"));
}

TEST_F(ItemsTest, WrongTasksAreRefused) {
  const auto refuses = [&](const std::string& lines, const std::string& why) {
    EXPECT_THAT([&] { find_task(task_file(lines)); }, ThrowsMessage<UsageError>(HasSubstr(why)));
  };
  EXPECT_THAT([] { find_task("arc_esay"); },
              ThrowsMessage<UsageError>(HasSubstr("did you mean arc_easy?")));
  EXPECT_THAT([] { find_task("xyzzy"); }, ThrowsMessage<UsageError>(HasSubstr("there are arc_")));
  EXPECT_THAT([] { find_task("no.toml"); }, ThrowsMessage<UsageError>(HasSubstr("no task file")));
  const std::string texts = "contexts = [\"{q}\"]\ncontinuations = [\"{a}\"]\n";
  refuses("", "contexts must not be empty");
  refuses(texts, "metrics has 'acc_norm'");
  refuses(texts + "answer = \"{x}\"\n", "labels is missing");
  refuses(texts + "context = \"\"\n", "did you mean contexts?");
  refuses("contexts = [\"{q\"]\ncontinuations = [\"{a}\"]\n", "contexts: \"{q\"");
}

constexpr const char* kPlanFields =
    "contexts = [\"{q}\\n\"]\nplan = \"{p}\"\nmetrics = [\"plan_graph\"]\n";

TEST_F(ItemsTest, ATaskWithAPlanHasPromptsAndPlans) {
  write("my.jsonl", R"j({"q": "Ask Ada", "p": "1. ask(\"Ada\")\n2. join()"})j"
                    "\n"
                    R"j({"q": "Nothing", "p": "1. join()<END_OF_PLAN>"})j");
  const std::string file =
      task_file(std::string(kPlanFields) + "stop = [\"<E\"]\nmax_tokens = 9\n");
  const TaskItems items = read_items(find_task(file), folder_);
  EXPECT_TRUE(items.items.empty());
  ASSERT_EQ(items.plans.size(), 2u);
  EXPECT_EQ(items.plans[0].prompt, "Ask Ada\n");
  EXPECT_EQ(items.plans[0].reference.calls.size(), 2u);
  EXPECT_EQ(items.plans[1].number, 1);
  EXPECT_THAT(items.generation.stop, ElementsAre("<E"));
  EXPECT_EQ(items.generation.max_tokens, 9);
  EXPECT_EQ(read_items(find_task(file), folder_, 1).plans.size(), 1u);
}

TEST_F(ItemsTest, ARecordWithoutAPlanIsAnError) {
  write("my.jsonl", R"j({"q": "Ask Ada", "p": "1. ask($4)"})j"
                    "\n");
  EXPECT_THAT([&] { read_items(find_task(task_file(kPlanFields)), folder_); },
              ThrowsMessage<Error>(HasSubstr("my.jsonl: line 1: plan: call 1, ask: $4 refers to")));
}

TEST_F(ItemsTest, AListThatGivesNoneOrSeveralTextsIsNoPromptOrPlan) {
  const std::string fields = "contexts = [\"{q[]}\"]\nplan = \"{p}\"\nmetrics = [\"plan_graph\"]\n";
  for (const auto& [list, count] : {std::pair{"[]", "0"}, std::pair{R"(["a", "b"])", "2"}}) {
    write("my.jsonl", fmt::format(R"j({{"q": {}, "p": "1. join()"}})j", list));
    EXPECT_THAT([&] { read_items(find_task(task_file(fields)), folder_); },
                ThrowsMessage<Error>(HasSubstr(fmt::format("contexts gives {} texts", count))));
  }
}

TEST_F(ItemsTest, FieldsThatDoNotGoWithAPlanAreErrors) {
  const auto expect_error = [&](const std::string& fields, const std::string& message) {
    EXPECT_THAT([&] { find_task(task_file(fields)); },
                ThrowsMessage<UsageError>(HasSubstr(message)));
  };
  const std::string plan = kPlanFields;
  expect_error(plan + "answer = \"1\"\n", "answer is not for tasks with a plan");
  expect_error(plan + "continuations = [\"x\"]\n", "continuations is not for tasks with a plan");
  expect_error(plan + "stop = [\"\"]\n", "stop must be a list without empty texts");
  expect_error(plan + "max_tokens = 0\n", "max_tokens must be >= 1");
  expect_error("contexts = [\"a\", \"b\"]\nplan = \"{p}\"\n", "contexts must have one text");
  expect_error("contexts = [\"a\"]\nplan = \"{p}\"\n", "metrics has 'acc'; plans have plan_graph");
}

}  // namespace
}  // namespace thinwire::eval
