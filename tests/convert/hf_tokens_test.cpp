// Vocabularies, chat templates and what texts begin and end with, from Hugging Face folders and
// back.
#include <algorithm>

#include "tests/convert/hf_fixture.h"
#include "thinwire/base/json.h"
#include "thinwire/convert/end_tokens.h"
#include "thinwire/convert/hf.h"
#include "thinwire/convert/hf_tokenizer.h"
#include "thinwire/data/chat/chat_template.h"

namespace thinwire::convert {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string small_model() {
  static const std::string text = "the quick brown fox jumps over the lazy dog";
  int lines = 0;
  const auto next = [&]() -> const std::string* { return lines++ < 50 ? &text : nullptr; };
  return data::train_sentencepiece(next, {.size = 290});
}

// The token before a text is the same in a run, in its export and in a model imported from that.
TEST_F(HuggingFace, TextsBeginAsTheFolderSays) {
  const std::string model = small_model();
  use_vocabulary_of(290);
  write_single();
  write_file(hf_ / "tokenizer.model", model);
  const auto begin = [&](const std::string& tokenizer_config) {
    fs::remove(hf_ / "tokenizer_config.json");
    if (!tokenizer_config.empty()) write_file(hf_ / "tokenizer_config.json", tokenizer_config);
    for (const char* folder : {"imported", "exported"}) fs::remove_all(dir_ / folder);
    import_hf(hf_, dir_ / "imported");
    export_hf(dir_ / "imported", dir_ / "exported", DType::kF32);
    const int32_t token = load_model(hf_).begin;
    EXPECT_EQ(load_model(dir_ / "imported").begin, token) << tokenizer_config;
    EXPECT_EQ(load_model(dir_ / "exported").begin, token) << tokenizer_config;
    return token;
  };
  EXPECT_EQ(begin(""), 1) << "transformers puts BOS where nothing is said";
  EXPECT_EQ(begin(R"({"add_bos_token": true, "bos_token": "<s>"})"), 1);
  EXPECT_EQ(begin(R"({"add_bos_token": false, "bos_token": "<s>"})"), -1);
  EXPECT_EQ(begin(R"({"add_bos_token": null, "bos_token": {"content": "</s>"}})"), 2);
  config_["bos_token_id"] = 2;
  write_config();
  EXPECT_EQ(begin(R"({"bos_token": null})"), 2);
  EXPECT_THAT(error_of([&] { begin(R"({"add_bos_token": 1})"); }),
              AllOf(HasSubstr("tokenizer_config.json"), HasSubstr("add_bos_token must be true")));
}

// A tokenizer.json beside the tokenizer.model that it was made from, with a token more, as Llama 2
// and models tuned from it are published.
TEST_F(HuggingFace, ATokenizerJsonCountsBeforeATokenizerModel) {
  use_vocabulary_of(292);
  config_["eos_token_id"] = 290;
  config_["pad_token_id"] = 291;
  write_single();
  write_file(hf_ / "tokenizer.model", small_model());
  write_file(hf_ / "added_tokens.json", R"({"<|im_end|>": 290, "[PAD]": 291})");
  const std::string described =
      R"({"tokenizer_class": "LlamaTokenizer", "legacy": false, "bos_token": "<s>",
          "eos_token": "<|im_end|>", "pad_token": "[PAD]", "add_bos_token": true})";
  write_file(hf_ / "tokenizer_config.json", described);
  const auto pieces_alone = data::Vocabulary::load(hf_);
  write_file(hf_ / "tokenizer.json", *print_tokenizer_json(*pieces_alone, 1));
  const auto encode = [](const fs::path& folder) {
    const LoadedModel loaded = load_model(folder);
    EXPECT_EQ(loaded.begin, 1);
    EXPECT_EQ(loaded.vocabulary->eos(), 290);
    EXPECT_EQ(loaded.vocabulary->size(), 292);
    return loaded.vocabulary->encode("<s>fox<|im_end|>\nfox</s>[PAD]");
  };
  const auto expected = encode(hf_);
  EXPECT_EQ(expected.front(), 1);
  EXPECT_EQ(expected.back(), 291);
  EXPECT_EQ(std::ranges::count(expected, 290), 1);
  EXPECT_EQ(data::Vocabulary::load(hf_)->stored_name(), std::string(data::kTokenizerFile));
  EXPECT_EQ(pieces_alone->encode("<s>fox<|im_end|>\nfox</s>[PAD]"), expected);
  EXPECT_THAT(import_hf(hf_, dir_ / "imported"), IsEmpty());
  export_hf(dir_ / "imported", dir_ / "exported", DType::kF32);
  EXPECT_EQ(encode(dir_ / "imported"), expected);
  EXPECT_EQ(encode(dir_ / "exported"), expected);
  for (const char* file : {"config.json", "tokenizer_config.json"}) {
    const json before = parse_json<json>(read_text_file(hf_ / file));
    const json after = parse_json<json>(read_text_file(dir_ / "exported" / file));
    for (const char* field : {"eos_token_id", "pad_token_id", "eos_token", "pad_token"}) {
      EXPECT_EQ(after.value(field, json()), before.value(field, json())) << file << " " << field;
    }
  }
  EXPECT_EQ(read_text_file(dir_ / "exported/tokenizer.model"),
            read_text_file(hf_ / "tokenizer.model"));
}

TEST_F(HuggingFace, AddedTokensWithoutRowsInTheEmbeddingAreLeftOut) {
  use_vocabulary_of(290);
  write_single();
  write_file(hf_ / "tokenizer.model", small_model());
  write_file(hf_ / "added_tokens.json", R"({"<pad>": 290})");
  EXPECT_EQ(load_model(hf_).vocabulary->size(), 290);
  json tokenizer = parse_json<json>(*print_tokenizer_json(*data::Vocabulary::load(hf_), 1));
  tokenizer["added_tokens"].push_back({{"id", 290}, {"content", "<pad>"}});
  write_file(hf_ / "tokenizer.json", print_json(tokenizer));
  const auto vocabulary = data::Vocabulary::load(hf_);
  EXPECT_EQ(vocabulary->size(), 290);
  EXPECT_EQ(vocabulary->find("<pad>"), -1);
}

// A folder of small_model() whose tokenizer.json puts `begin` before texts.
TEST_F(HuggingFace, ThePostProcessorDecidesHowTextsBeginAndAConflictIsNamed) {
  use_vocabulary_of(290);
  write_single();
  write_file(hf_ / "tokenizer.model", small_model());
  const auto notes_of = [&](const char* kind, int32_t begin, const char* adds) {
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) fs::remove(hf_ / file);
    const auto pieces = data::Vocabulary::load(hf_);
    write_file(hf_ / "tokenizer.json", *print_tokenizer_json(*pieces, begin));
    write_file(hf_ / "tokenizer_config.json",
               fmt::format(R"({{"tokenizer_class": "{}", "bos_token": "<s>", "eos_token": "</s>",
                                "legacy": false, "add_bos_token": {}}})",
                           kind, adds));
    for (const char* folder : {"imported", "exported"}) fs::remove_all(dir_ / folder);
    Notes notes = import_hf(hf_, dir_ / "imported");
    export_hf(dir_ / "imported", dir_ / "exported", DType::kF32);
    for (const fs::path& folder : {hf_, dir_ / "imported", dir_ / "exported"}) {
      const LoadedModel loaded = load_model(folder);
      EXPECT_EQ(loaded.begin, begin) << folder;
      EXPECT_EQ(loaded.vocabulary->begin(), begin) << folder;
    }
    std::erase_if(notes, [](const auto& note) { return note.find(" counts; ") == note.npos; });
    return notes;
  };
  EXPECT_THAT(notes_of("LlamaTokenizerFast", 1, "true"), IsEmpty());
  EXPECT_THAT(notes_of("LlamaTokenizerFast", 1, "false"),
              ElementsAre(AllOf(HasSubstr("puts <s> before texts"),
                                HasSubstr("add_bos_token = false, which means nothing"))));
  EXPECT_THAT(notes_of("LlamaTokenizer", -1, "null"),
              ElementsAre(AllOf(HasSubstr("puts nothing before texts"),
                                HasSubstr("no add_bos_token, which means <s>"))));
  EXPECT_THAT(notes_of("PreTrainedTokenizerFast", 1, "false"), IsEmpty())
      << "neither version looks at it";
}

TEST_F(HuggingFace, EveryEndTokenOfTheFolderCountsAndComesBack) {
  use_vocabulary_of(294);
  config_["eos_token_id"] = {2, 291};
  write_single();
  write_file(hf_ / "tokenizer.model", small_model());
  write_file(hf_ / "added_tokens.json",
             R"({"<|x|>": 290, "<|y|>": 291, "<|z|>": 292, "<|turn|>": 293})");
  write_file(hf_ / "generation_config.json", R"({"eos_token_id": [292, 2], "top_k": 5})");
  const auto exported = [&](const std::string& template_text) {
    for (const char* folder : {"imported", "exported"}) fs::remove_all(dir_ / folder);
    write_file(hf_ / "chat_template.jinja", template_text);
    import_hf(hf_, dir_ / "imported");
    const Notes notes = export_hf(dir_ / "imported", dir_ / "exported", DType::kF32);
    const json config = parse_json<json>(read_text_file(dir_ / "exported/config.json"));
    EXPECT_EQ(config["eos_token_id"], json({2, 291}));
    const json generation =
        parse_json<json>(read_text_file(dir_ / "exported/generation_config.json"));
    EXPECT_EQ(generation["top_k"], 5);
    for (const char* folder : {"imported", "exported"}) {
      const LoadedModel loaded = load_model(dir_ / folder);
      std::vector<int32_t> ends = end_tokens(loaded.origin, *loaded.vocabulary);
      std::ranges::sort(ends);
      std::vector<int32_t> listed = generation["eos_token_id"];
      std::ranges::sort(listed);
      EXPECT_EQ(ends, listed) << folder;
    }
    return std::pair(generation["eos_token_id"], notes);
  };
  const auto turns = [](const std::string& end) {
    return "{% for m in messages %}<|x|>{{ m.role }} {{ m.content }}" + end +
           "\n{% endfor %}{% if add_generation_prompt %}<|x|>assistant {% endif %}";
  };
  auto [ends, notes] = exported(turns("</s>"));
  EXPECT_EQ(ends, json({292, 2, 291}));
  EXPECT_THAT(notes, IsEmpty());
  std::tie(ends, notes) = exported(turns("<|turn|>"));
  EXPECT_EQ(ends, json({292, 2, 291, 293}));
  EXPECT_THAT(notes, ElementsAre(AllOf(HasSubstr("ends turns with <|turn|> (token 293)"),
                                       HasSubstr("as </s> (2) is"))));
}

TEST_F(HuggingFace, ATemplateInTheTokenizersConfigIsFoundBesideAnImportedVocabulary) {
  use_vocabulary_of(290);
  write_single();
  write_file(hf_ / "tokenizer.model", small_model());
  config::DataSection data;
  data.records = config::RecordKind::kChats;
  const auto found = [&](const char* file, const std::string& text) {
    for (const char* one : {"tokenizer_config.json", "chat_template.json", "chat_template.jinja"}) {
      fs::remove(hf_ / one);
    }
    write_file(hf_ / file, text);
    fs::remove_all(dir_ / "imported");
    import_hf(hf_, dir_ / "imported");
    data.vocabulary_model = (dir_ / "imported/vocabulary.model").string();
    return data::find_chat_template(data)->source();
  };
  EXPECT_EQ(found("tokenizer_config.json", R"({"chat_template": "a{{ bos_token }}"})"),
            "a{{ bos_token }}");
  EXPECT_EQ(found("chat_template.json", R"({"chat_template": "b"})"), "b");
  EXPECT_EQ(found("chat_template.jinja", "c"), "c");
}

TEST_F(HuggingFace, ExportsAreForBothVersionsOfTransformers) {
  use_vocabulary_of(290);
  write_single();
  write_file(hf_ / "tokenizer.model", small_model());
  const auto exported = [&] {
    for (const char* folder : {"imported", "exported"}) fs::remove_all(dir_ / folder);
    import_hf(hf_, dir_ / "imported");
    export_hf(dir_ / "imported", dir_ / "exported", DType::kF32);
    return parse_json<json>(read_text_file(dir_ / "exported/tokenizer_config.json"));
  };
  const json inputs = {"input_ids", "attention_mask"};
  EXPECT_EQ(exported()["model_input_names"], inputs);
  fs::copy_file(dir_ / "exported/tokenizer.json", hf_ / "tokenizer.json");
  write_file(hf_ / "tokenizer_config.json",
             R"({"tokenizer_class": "TokenizersBackend", "bos_token": "<s>", "eos_token": "</s>",
                 "backend": "tokenizers", "extra_special_tokens": ["<unk>"]})");
  const json config = exported();
  EXPECT_EQ(config["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(config["model_input_names"], inputs);
  EXPECT_EQ(config["additional_special_tokens"], json({"<unk>"}));
  EXPECT_FALSE(config.contains("extra_special_tokens"));
  EXPECT_EQ(config["backend"], "tokenizers");
  // A class of its own, as transformers 5 saves it.
  write_file(hf_ / "tokenizer_config.json",
             R"({"tokenizer_class": "LlamaTokenizer", "extra_special_tokens": ["<unk>"]})");
  const json named = exported();
  EXPECT_EQ(named["tokenizer_class"], "LlamaTokenizer");
  EXPECT_EQ(named["additional_special_tokens"], json({"<unk>"}));
  EXPECT_FALSE(named.contains("extra_special_tokens"));
}

TEST_F(HuggingFace, AnOptionalFileThatIsALinkToNothingIsNamed) {
  use_vocabulary_of(290);
  write_single();
  write_file(hf_ / "tokenizer.model", small_model());
  fs::create_symlink(dir_ / "absent", hf_ / "tokenizer_config.json");
  EXPECT_THAT(import_error(),
              AllOf(HasSubstr("tokenizer_config.json"), HasSubstr((dir_ / "absent").string())));
}

TEST_F(HuggingFace, ByteVocabularyIsCarriedAndExplained) {
  use_vocabulary_of(258);
  write_single();
  write_file(hf_ / data::kByteFile, data::byte_vocabulary_json());
  EXPECT_THAT(import_hf(hf_, dir_ / "imported"), IsEmpty());
  EXPECT_EQ(load_model(dir_ / "imported").vocabulary->eos(), 256);
  EXPECT_THAT(export_hf(dir_ / "imported", dir_ / "exported", DType::kF32),
              ElementsAre(HasSubstr("no tokenizer.model")));
  EXPECT_TRUE(fs::exists(dir_ / "exported" / data::kByteFile));
  const json exported = parse_json<json>(read_text_file(dir_ / "exported/config.json"));
  EXPECT_EQ(exported["eos_token_id"], 256);
  EXPECT_EQ(exported["bos_token_id"], 257);
}

TEST_F(HuggingFace, SentencePieceModelIsCarriedBothWays) {
  const std::string model = small_model();
  config_["vocab_size"] = 61;
  write_single();
  write_file(hf_ / "tokenizer.model", model);
  EXPECT_THAT(import_error(), AllOf(HasSubstr("tokenizer.model has 290 pieces"),
                                    HasSubstr("vocab_size"), HasSubstr("at most 61")));

  use_vocabulary_of(300);  // padded beyond the pieces
  write_single();
  EXPECT_THAT(import_hf(hf_, dir_ / "imported"),
              ElementsAre(AllOf(HasSubstr("290 pieces"), HasSubstr("the last 10"))));
  EXPECT_EQ(read_text_file(dir_ / "imported" / data::kSentencePieceFile), model);
  EXPECT_THAT(export_hf(dir_ / "imported", dir_ / "exported", DType::kF32), IsEmpty());
  EXPECT_EQ(read_text_file(dir_ / "exported/tokenizer.model"), model);
  const json tokenizer = parse_json<json>(read_text_file(dir_ / "exported/tokenizer_config.json"));
  EXPECT_EQ(tokenizer["tokenizer_class"], "PreTrainedTokenizerFast");
  const json pieces = parse_json<json>(read_text_file(dir_ / "exported/tokenizer.json"));
  EXPECT_EQ(pieces["model"]["type"], "BPE");
  EXPECT_EQ(pieces["model"]["vocab"].size(), 290);
  EXPECT_EQ(pieces["added_tokens"].size(), 3) << "unk, bos, eos";
  EXPECT_EQ(pieces["post_processor"]["pair"].size(), 4) << "<s> text <s> text";
  const auto vocabulary = data::Vocabulary::load(dir_ / "imported");
  const HfJson by_eos = print_post_processor(*vocabulary, vocabulary->eos());
  EXPECT_EQ(by_eos["pair"].size(), 3) << "</s> text text: another </s> would be a separator";
  const json generation =
      parse_json<json>(read_text_file(dir_ / "exported/generation_config.json"));
  EXPECT_EQ(generation["eos_token_id"], 2);
}

// Documents follow EOS in training, and no BOS is ever seen there.
TEST_F(HuggingFace, TextsOfTrainedModelsBeginWithTheEndOfTheOneBefore) {
  use_vocabulary_of(258);
  write_single();
  import_hf(hf_, dir_ / "imported");
  write_checkpoint(10, load_model(hf_), data::byte_vocabulary_json());
  export_hf(dir_ / "run", dir_ / "exported", DType::kF32);
  import_hf(dir_ / "exported", dir_ / "again");
  for (const char* folder : {"run", "exported", "again"}) {
    EXPECT_EQ(load_model(dir_ / folder).begin, 256) << folder;
  }
  const json exported = parse_json<json>(read_text_file(dir_ / "exported/config.json"));
  EXPECT_EQ(exported["bos_token_id"], 256);
}

}  // namespace
}  // namespace thinwire::convert
