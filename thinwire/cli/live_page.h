// --page of `thinwire train` and `thinwire serve`: the live page of the run (docs/page.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "thinwire/config/recipe.h"
#include "thinwire/page/live_run.h"
#include "thinwire/page/page_server.h"

namespace CLI {
class App;
}

namespace thinwire::cli {

// Declares the option; `value` stays empty if it is not given.
void add_page_option(CLI::App& app, std::string& value);

// "PORT" or "HOST:PORT". Throws UsageError naming --page for anything else.
page::PageAddress parse_page(const std::string& text);

// The page of one run. It is served until this is destroyed. Without --page there is none, and
// every function does nothing.
class LivePage {
 public:
  // `option`: the value of --page, which is checked; nothing is served yet.
  explicit LivePage(const std::string& option);

  // Serves from here on, prints where, and returns the object to report to; null without --page.
  // `recipe`: resolved; `first_step`: completed before; `rounds`: of a run of many hosts.
  page::LiveRun* open(const std::string& command, const config::Recipe& recipe, int64_t first_step,
                      std::optional<uint64_t> rounds);

 private:
  std::optional<page::PageAddress> address_;
  std::optional<page::LiveRun> run_;
  std::optional<page::PageServer> server_;  // destroyed first
};

}  // namespace thinwire::cli
