#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/generation.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/output.h"
#include "thinwire/data/chat/chat_template.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/events/progress.h"
#include "thinwire/model/sampler.h"

namespace thinwire::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kWhitespace = " \t\r\n\v\f";

bool from_terminal() { return ::isatty(STDIN_FILENO) != 0; }

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(kWhitespace);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kWhitespace) + 1 - first);
}

std::atomic<bool> answer_stopped = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

// While it lives, Ctrl-C ends the answer; a second one ends the program, as everywhere else.
class StopByInterrupt {
 public:
  StopByInterrupt() {
    answer_stopped = false;
    if (from_terminal()) before_ = std::signal(SIGINT, stop);
  }
  ~StopByInterrupt() {
    if (from_terminal()) std::signal(SIGINT, before_);
  }
  StopByInterrupt(const StopByInterrupt&) = delete;
  StopByInterrupt& operator=(const StopByInterrupt&) = delete;

 private:
  static void stop(int signal) {
    answer_stopped = true;
    std::signal(signal, SIG_DFL);
  }

  void (*before_)(int) = SIG_DFL;
};

// An answer as it grows: without the white space that it begins with, and without what the template
// puts behind it, where that is ordinary text.
class AnswerText {
 public:
  AnswerText(const data::Vocabulary& vocabulary, std::string end)
      : stream_(vocabulary, /*continues=*/true), end_(std::move(end)) {}

  // Both return what can be shown now.
  std::string push(int32_t token) { return take(stream_.push(token), true); }
  std::string finish() { return take(stream_.finish(), false); }
  bool ended() const { return ended_; }
  std::string whole() const { return trimmed(shown_); }

 private:
  // hold: what might be the beginning of the end is kept back.
  std::string take(const std::string& more, bool hold) {
    held_ += more;
    if (shown_.empty())
      held_.erase(0, std::min(held_.find_first_not_of(kWhitespace), held_.size()));
    size_t size = held_.size();
    if (const size_t at = end_.empty() ? std::string::npos : held_.find(end_);
        at != std::string::npos) {
      ended_ = true;
      size = at;
    } else if (hold) {
      while (size > 0 && !end_.starts_with(held_.substr(held_.size() - size))) --size;
      size = held_.size() - size;
    }
    std::string text = held_.substr(0, size);
    held_.erase(0, size);
    shown_ += text;
    return text;
  }

  data::TextStream stream_;
  const std::string end_;
  std::string held_, shown_;
  bool ended_ = false;
};

class Conversation {
 public:
  Conversation(const GenerationArguments& arguments, const convert::LoadedModel& loaded,
               const data::ChatTemplate& chat, const std::string& system, Generator& generator)
      : arguments_(arguments),
        loaded_(loaded),
        chat_(chat),
        turn_end_(chat.behind_answer()),
        generator_(generator),
        decoder_(generator.decoder()) {
    if (!system.empty()) messages_.push_back({{"role", "system"}, {"content", system}});
    kept_ = messages_.size();
  }

  // Writes the answer to a message as it is generated; both are then part of the conversation. If
  // there can be no answer, returns why, and the conversation goes on as if nothing had been said.
  std::optional<std::string> answer(const std::string& message) {
    messages_.push_back({{"role", "user"}, {"content", message}});
    auto prompt = fitting_prompt();
    if (prompt) {
      write_answer(std::move(*prompt));
      return std::nullopt;
    }
    messages_.erase(messages_.size() - 1);
    return std::move(prompt.error());
  }

 private:
  void write_answer(std::vector<int32_t> prompt) {
    const int64_t room = decoder_.context() - std::ssize(prompt);
    const int64_t most = arguments_.tokens > 0 ? std::min(arguments_.tokens, room) : room;
    const size_t known = known_of(prompt);
    known_ = std::move(prompt);
    const std::vector<int32_t> unread(known_.begin() + static_cast<ptrdiff_t>(known), known_.end());
    AnswerText text(*loaded_.vocabulary, turn_end_);
    const StopByInterrupt interrupt;
    model::generate_tokens(decoder_, generator_.sampler(), unread,
                           {most, loaded_.vocabulary->size()}, [&](int32_t token) {
                             if (answer_stopped || generator_.is_end(token)) return false;
                             known_.push_back(token);
                             write_output(text.push(token));
                             return !text.ended();
                           });
    if (!text.ended()) write_output(text.finish());
    write_output("\n");
    messages_.push_back({{"role", "assistant"}, {"content", text.whole()}});
  }

  // The tokens up to the answer, without the oldest messages where they would leave no room for it.
  tl::expected<std::vector<int32_t>, std::string> fitting_prompt() {
    int64_t left_out = 0;
    while (true) {
      const auto text = chat_.prompt(messages_);
      if (!text) return tl::unexpected("the conversation " + text.error());
      std::vector<int32_t> tokens = loaded_.vocabulary->encode(*text);
      const int64_t room = decoder_.context() - std::ssize(tokens);
      const bool last = messages_.size() == kept_ + 1;
      if (room >= (last ? 1 : least_room())) {
        if (left_out > 0) {
          events::print_message(
              fmt::format("the {} no longer fit into the context of {} tokens and are left out",
                          counted(left_out, "oldest message"), decoder_.context()));
        }
        return tokens;
      }
      if (last) {
        return tl::unexpected(fmt::format(
            "the message leaves no room for an answer: with what the chat template puts "
            "around it, it has {} tokens, and the context {}; shorten it, or raise "
            "--context",
            tokens.size(), decoder_.context()));
      }
      const auto oldest = messages_.begin() + static_cast<ptrdiff_t>(kept_);
      messages_.erase(oldest, oldest + 2);  // and its answer
      left_out += 2;
    }
  }

  int64_t least_room() const {
    const int64_t quarter = decoder_.context() / 4;
    return arguments_.tokens > 0 ? std::min(arguments_.tokens, quarter) : quarter;
  }

  // How many tokens the decoder need not read again; it forgets the others.
  size_t known_of(const std::vector<int32_t>& prompt) {
    known_.resize(static_cast<size_t>(decoder_.position()));
    const auto [same, other] = std::ranges::mismatch(known_, prompt);
    const auto count = std::min(static_cast<size_t>(same - known_.begin()), prompt.size() - 1);
    decoder_.rewind(static_cast<int64_t>(count));
    return count;
  }

  const GenerationArguments& arguments_;
  const convert::LoadedModel& loaded_;
  const data::ChatTemplate& chat_;
  const std::string turn_end_;
  Generator& generator_;
  model::Decoder& decoder_;
  Json messages_ = Json::array();
  size_t kept_ = 0;             // messages that are never left out: the system prompt
  std::vector<int32_t> known_;  // what the decoder has read, and the rest of the last answer
};

// A line, or several of which all but the last end in a backslash; nothing at the end of the input.
std::optional<std::string> read_message() {
  std::string message;
  bool ended = false;
  while (!ended) {
    if (from_terminal()) std::fputs(message.empty() ? "> " : ". ", stderr);
    std::string line;
    int c = 0;
    while ((c = std::getc(stdin)) != EOF && c != '\n') line += static_cast<char>(c);
    if (c == EOF && line.empty() && message.empty()) return std::nullopt;
    const bool goes_on = c != EOF && line.ends_with('\\');
    if (goes_on) line.back() = '\n';
    message += line;
    ended = !goes_on;
  }
  return message;
}

void answer_lines(Conversation& conversation) {
  if (from_terminal()) {
    events::print_message(
        "Ctrl-C ends an answer, Ctrl-D the chat; a line that ends in \\ continues in the next one");
  }
  while (const std::optional<std::string> message = read_message()) {
    if (trimmed(*message).empty()) continue;
    const std::optional<std::string> refused = conversation.answer(*message);
    if (!refused) continue;
    if (!from_terminal()) throw Error(*refused);
    events::print_message(*refused);
  }
  if (from_terminal()) std::fputs("\n", stderr);
}

std::shared_ptr<const data::ChatTemplate> template_of(const GenerationArguments& generation,
                                                      const ChatArguments& arguments,
                                                      const convert::LoadedModel& loaded) {
  convert::HfOrigin files = loaded.origin;
  if (!arguments.chat_template.empty()) {
    files[data::kChatTemplateFile] = read_text_file(arguments.chat_template);
  }
  if (auto chat = data::chat_template_among(files)) return chat;
  throw Error(fmt::format(
      "{} has no chat template: neither chat_template.jinja nor chat_template in "
      "tokenizer_config.json; give a file with one as --template, or let the model continue a text "
      "with `thinwire generate`",
      generation.model));
}

}  // namespace

void add_chat_options(CLI::App& command, ChatArguments& arguments, CLI::Option* chats) {
  auto* system = command.add_option("--system", arguments.system,
                                    "System prompt: what the model is told before the first "
                                    "message (default: what its chat template says)");
  auto* file = command
                   .add_option("--template", arguments.chat_template,
                               "Chat template, a .jinja file (default: the model's own)")
                   ->check(existing_file());
  if (chats == nullptr) return;
  system->needs(chats);
  file->needs(chats);
}

void run_chat(const GenerationArguments& generation, const ChatArguments& arguments) {
  convert::LoadedModel loaded = load_generator(generation);
  const auto chat = template_of(generation, arguments, loaded);
  Generator generator(generation, loaded, choose_context(generation, loaded, 0));
  Conversation conversation(generation, loaded, *chat, arguments.system, generator);
  const std::optional<std::string>& message = generation.prompt;
  if (!message) return answer_lines(conversation);
  const auto refused = conversation.answer(*message == "-" ? read_standard_input() : *message);
  if (refused) throw Error(*refused);
}

void add_chat(CLI::App& app) {
  struct Arguments {
    GenerationArguments generation;
    ChatArguments chat;
  };
  auto* command =
      add_command(app, "chat", "Answers messages with a model that was trained on chats");
  const auto arguments = std::make_shared<Arguments>();
  add_generation_options(*command, arguments->generation,
                         {.tokens = "Maximum number of tokens of an answer (default: what fits "
                                    "into the context)",
                          .prompt = "Message to answer, after which the chat ends; - reads all of "
                                    "standard input (default: messages from standard input, one a "
                                    "line)"});
  add_chat_options(*command, arguments->chat, nullptr);
  command->callback([arguments] { run_chat(arguments->generation, arguments->chat); });
}

}  // namespace thinwire::cli
