#include "thinwire/train/task_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/errors.h"
#include "tests/tiny_run.h"

namespace thinwire::train {
namespace {

using testing::HasSubstr;

class TaskFiles : public testing::Test {
 protected:
  TaskFiles() {
    fs::create_directories(folder_ / "data" / "more");
    for (const char* name : {"x.jsonl", "data/x.jsonl", "data/more/x.jsonl"}) {
      write_file(folder_ / name, "{\"a\": \"1\"}\n");
    }
  }
  // The files of a task that names this one.
  std::vector<TaskFile> of(const std::string& file) const {
    write_file(folder_ / "words.toml",
               "[[source]]\nfile = \"" + file +
                   "\"\ncontexts = [\"thin\"]\n"
                   "continuations = [\"{a}\"]\nmetrics = [\"perplexity\"]\n");
    return task_files(tiny_recipe(folder_, {"eval.tasks=" + (folder_ / "words.toml").string(),
                                            "eval.data=" + (folder_ / "data").string()}));
  }

  const fs::path folder_ = test_folder();
};

TEST_F(TaskFiles, AreTheTaskFileAndWhatItNamesInTheFolderOfTheData) {
  for (const char* file : {"x.jsonl", "more/x.jsonl", "more/../x.jsonl"}) {
    const std::vector<TaskFile> files = of(file);
    ASSERT_EQ(files.size(), 2u) << file;
    EXPECT_EQ(files[0].name, "words.toml");
    EXPECT_TRUE(files[1].name.starts_with("data/")) << files[1].name;
  }
}

TEST_F(TaskFiles, ThatNameFilesElsewhereAreRefused) {
  for (const std::string& file : {std::string("../x.jsonl"), std::string("more/../../x.jsonl"),
                                  fs::absolute(folder_ / "data" / "x.jsonl").string()}) {
    EXPECT_THAT(tests::error_of([&] { of(file); }),
                HasSubstr("task words reads " + file + ", which is not in the folder of the data"));
  }
}

}  // namespace
}  // namespace thinwire::train
