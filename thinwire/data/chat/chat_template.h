// The template by which a chat becomes text, as transformers' apply_chat_template renders it with
// tokenize=False, and which parts of that text the assistant says.
//
// Templates are written in Jinja, of which template.h reads the part that chat templates of Llama,
// Mistral, Qwen, SmolLM, OLMo and Zephyr use. Those with {% generation %} blocks say what the
// assistant says (return_assistant_tokens_mask); of others it is what message i adds to the text of
// the messages before it, rendered with add_generation_prompt. Where those texts are no beginnings
// of each other, because the template changes what came before, the chat is an error.
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

  // Messages with roles and contents, and tools or null. Otherwise what is wrong.
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
