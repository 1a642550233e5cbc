// The template that renders a chat as text, as transformers' apply_chat_template does with
// tokenize=False, and the parts of that text that are the assistant's.
//
// Templates are written in Jinja, of which template.h reads the part that chat templates of Llama,
// Mistral, Qwen, SmolLM, OLMo and Zephyr use. Templates with {% generation %} blocks mark the
// assistant's text (return_assistant_tokens_mask). With other templates it is what message i adds
// to the text of the messages before it, rendered with add_generation_prompt. If the earlier text
// is not a prefix of the later one, because the template renders earlier messages differently, the
// chat is an error.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/config/data_section.h"
#include "thinwire/data/chat/template.h"
#include "thinwire/data/records.h"

namespace thinwire::data {

// Thread-safe.
class ChatTemplate {
 public:
  // source: the template; bos, eos: the tokens that it may mention. Throws Error for a template
  // that cannot be read.
  ChatTemplate(const std::string& source, std::string bos, std::string eos);

  // Renders messages with roles and contents, and tools or null. On failure: what is wrong.
  tl::expected<Record, std::string> render(const nlohmann::ordered_json& messages,
                                           const nlohmann::ordered_json& tools) const;

 private:
  Rendered text_of(nlohmann::ordered_json messages, const nlohmann::ordered_json& tools,
                   bool prompt) const;

  Template template_;
  std::string bos_;
  std::string eos_;
};

// data.chat_template, or the one beside data.vocabulary_model: chat_template.jinja, or
// chat_template in tokenizer_config.json (of several, the one named default); or that of the
// Hugging Face folder that an imported model came from. Throws Error if there is none.
std::shared_ptr<const ChatTemplate> find_chat_template(const config::DataSection& data);
// The files that it reads.
std::vector<fs::path> chat_template_files(const config::DataSection& data);

}  // namespace thinwire::data
