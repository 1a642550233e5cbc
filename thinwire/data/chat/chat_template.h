// The template that renders a chat as text, as transformers' apply_chat_template does with
// tokenize=False, and the parts of that text that are the assistant's.
//
// Templates are written in Jinja, of which we read the part that chat templates of Llama,
// Mistral, Qwen, SmolLM, OLMo and Zephyr use. Templates with {% generation %} blocks mark the
// assistant's text (return_assistant_tokens_mask). With other templates it is what message i adds
// to the text of the messages before it, rendered with add_generation_prompt. Some templates put a
// system prompt, or tools, into the last turn of the user (Mistral), so that the earlier text is
// not a prefix of the later one. Then the text is what the model reads before the last answer, and
// that answer. A template that renders earlier answers otherwise makes the chat an error.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/config/sections.h"
#include "thinwire/data/records.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {

// Jinja templates, as far as chat templates need them, rendered as transformers renders them (trim
// and strip the lines of blocks; https://jinja.palletsprojects.com/en/stable/templates/).
//
// Statements: if, for (with a condition, else, break, continue and loop), set (also of an attribute
// of a namespace), generation. Expressions: literals, lists, dictionaries, attributes, items,
// slices, arithmetic, ~, comparisons, in, not, and, or, "a if b else c", the filters, tests,
// methods and functions listed in builtins.cpp. Everything else (macros, imports, the current date)
// is an error that names it, either when the template is read or when rendering reaches it.

struct Rendered {
  std::string text;
  std::vector<TextPart> generated;  // what {% generation %} blocks wrote
};

// Thread-safe.
class Template {
 public:
  // Throws Error that names the line.
  explicit Template(const std::string& source);
  ~Template();
  Template(Template&&) noexcept;

  // variables: an object. Throws Error for what the template refuses (raise_exception) or asks for
  // that is not supported.
  Rendered render(const nlohmann::ordered_json& variables) const;
  // Whether it has {% generation %} blocks.
  bool marks_generation() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

// Thread-safe.
class ChatTemplate {
 public:
  // source: the template; bos, eos: the tokens that it may mention. Throws Error for a template
  // that cannot be read.
  ChatTemplate(std::string source, std::string bos, std::string eos);

  const std::string& source() const { return source_; }

  // Renders messages with roles and contents, and tools or null. On failure: what is wrong.
  tl::expected<Record, std::string> render(const nlohmann::ordered_json& messages,
                                           const nlohmann::ordered_json& tools) const;
  // Renders messages up to where the assistant's next one begins. On failure: what is wrong.
  tl::expected<std::string, std::string> prompt(const nlohmann::ordered_json& messages) const;
  // What the template puts behind what the assistant says last, such as "<|im_end|>", without the
  // white space at its end, unless that is all; empty: nothing.
  std::string behind_answer() const;

 private:
  Rendered text_of(nlohmann::ordered_json messages, const nlohmann::ordered_json& tools,
                   bool prompt) const;
  // What each answer adds, in `whole`, the text of all messages; nothing if earlier texts are not
  // prefixes of it.
  std::optional<std::vector<TextPart>> added_parts(const nlohmann::ordered_json& messages,
                                                   const nlohmann::ordered_json& tools,
                                                   const std::string& whole) const;
  // The text before the last answer as a prompt, and that answer; nothing if earlier answers are
  // rendered otherwise than by themselves.
  std::optional<Rendered> as_prompted(const nlohmann::ordered_json& messages,
                                      const nlohmann::ordered_json& tools) const;
  // What the last message, an answer, adds to the prompt of those before it; nothing if that is not
  // a prefix, with the system's messages or without.
  std::optional<std::string> addition(const nlohmann::ordered_json& messages,
                                      const nlohmann::ordered_json& tools) const;

  std::string source_;
  Template template_;
  std::string bos_;
  std::string eos_;
};

inline constexpr const char* kChatTemplateFile = "chat_template.jinja";

// The chat template of a Hugging Face folder, from the texts of its files by name:
// chat_template.jinja, or chat_template in tokenizer_config.json (of several, the one named
// default) or in chat_template.json. Null if there is none. Throws Error naming the file if it is
// damaged.
std::shared_ptr<const ChatTemplate> chat_template_among(
    const std::map<std::string, std::string>& files);

// data.chat_template, or that of the files beside data.vocabulary_model, or of those that an
// imported model came with. Throws Error if there is none.
std::shared_ptr<const ChatTemplate> find_chat_template(const config::DataSection& data);
// The files that it reads.
std::vector<fs::path> chat_template_files(const config::DataSection& data);

// The special or added token that the template puts behind what the assistant says; -1: none.
int32_t turn_end(const ChatTemplate& chat, const Vocabulary& vocabulary);

}  // namespace thinwire::data
