#include "thinwire/cli/live_page.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/method.h"
#include "thinwire/method/registry.h"

namespace thinwire::cli {
namespace {

page::PredictedBytes predict(const config::Recipe& recipe, bool hosts) {
  const auto workers = static_cast<int>(recipe.train.workers);
  method::Traffic traffic =
      method::find_method(recipe.sync.method).traffic(recipe, method::tensors_of(recipe), workers);
  if (hosts) {
    traffic = method::hosted_traffic(std::move(traffic), recipe.sync.sums, workers);
  }
  return {traffic.sent_bytes, traffic.received_bytes, traffic.exact};
}

}  // namespace

void add_page_option(CLI::App& app, std::string& value) {
  app.add_option("--page", value,
                 "Serve a live page of the run on PORT, for this machine only, or on HOST:PORT; "
                 "port 0: a free port");
}

page::PageAddress parse_page(const std::string& text) {
  const bool has_host = text.find(':') != std::string::npos;
  try {
    const hosts::Endpoint endpoint =
        hosts::parse_endpoint("--page", has_host ? text : "127.0.0.1:" + text);
    return {endpoint.host, endpoint.port};
  } catch (const UsageError&) {
    throw UsageError(fmt::format(
        "--page must be PORT or HOST:PORT with a port from 0 to 65535, got '{}'", text));
  }
}

LivePage::LivePage(const std::string& option) {
  if (!option.empty()) address_ = parse_page(option);
}

page::LiveRun* LivePage::open(const std::string& command, const config::Recipe& recipe,
                              int64_t first_step, std::optional<uint64_t> rounds) {
  if (!address_) return nullptr;
  run_.emplace(page::RunFacts{command, recipe.run.name, recipe.sync.method, recipe.train.workers,
                              recipe.train.steps, first_step, rounds,
                              predict(recipe, rounds.has_value())});
  server_.emplace(*address_, [this] { return page::print_page_state(run_->state()); });
  events::print_message(
      fmt::format("live page: http://{}/",
                  hosts::far_address({address_->host, address_->port}, server_->port())));
  return &*run_;
}

}  // namespace thinwire::cli
