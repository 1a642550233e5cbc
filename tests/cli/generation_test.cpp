#include "thinwire/cli/generation.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/method/registry.h"

namespace thinwire::cli {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ChooseContext, ATextLongerThanAModelHasPositionsIsRefused) {
  const std::vector<std::string> fields = {"model.architecture=roberta", "roberta.positions=512"};
  const config::Recipe recipe =
      config::parse_recipe("", "no file", fields, method::method_sections());
  convert::LoadedModel loaded;
  loaded.model = method::ModelSpec(recipe);
  loaded.sequence = 512;
  EXPECT_EQ(choose_context({}, loaded, 512), 512);
  EXPECT_THAT([&] { choose_context({}, loaded, 513); },
              ThrowsMessage<UsageError>(HasSubstr("513 tokens is longer than the 512 positions")));
  GenerationArguments arguments;
  arguments.context = 600;
  EXPECT_THROW(choose_context(arguments, loaded, 10), UsageError);
}

}  // namespace
}  // namespace thinwire::cli
