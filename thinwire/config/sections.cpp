// The fields of the sections that every recipe has. `thinwire recipe --explain` prints these
// sentences.
#include "thinwire/config/recipe.h"

namespace thinwire::config {

void RunSection::describe(Fields& fields) {
  fields.text("name", name, "Name of the run; it also names the run folder when dir is not set.");
  fields.text("dir", dir,
              "Folder for the run's log, checkpoints and summary; empty means runs/<name>, and "
              "runs/<name>-served where thinwire serve serves it.");
  fields.integer("seed", seed, "", 0, kNoLimit,
                 "Seed of all random numbers: the same recipe and seed give the same weights.");
}

void DataSection::describe(Fields& fields) {
  fields.text("dir", dir, "Folder of the prepared data: the token shards and the vocabulary.");
  fields.flag(
      "own", own,
      "With `thinwire serve`: whether each member trains on its own text, which never leaves "
      "it (thinwire join --data); the prepared data here then gives the vocabulary and the "
      "validation sets only.");
  fields.list(
      "text", text,
      "Text to prepare: files (.txt or .jsonl, also compressed as .gz, .bz2 or .zst) or folders "
      "of such files.");
  fields.list("validation_text", validation_text,
              "Additional validation sets, each written as name=path.");
  fields.text("text_field", text_field,
              "The field of a .jsonl line that holds the document's text; with records = labels "
              "or numbers, the first text.");
  fields.choice(
      "records", records,
      "What .jsonl lines hold: a text; a prompt and its answer, of which only the answer "
      "is learnt; a chat, of which only the assistant's messages are; a prompt with a "
      "preferred and a rejected answer ([preference]); or a text, or two, and its class or "
      "a number, which an encoder learns (model.architecture = roberta).");
  fields.text("prompt_field", prompt_field,
              "With records = prompts or preferences: the field with the prompt.");
  fields.text("answer_field", answer_field,
              "With records = prompts: the field with the answer; empty means completion or "
              "answer, whichever a line has.");
  fields.text("messages_field", messages_field,
              "With records = chats: the field with the list of messages, each with role and "
              "content.");
  fields.text(
      "pair_field", pair_field,
      "With records = labels or numbers: the field with the second text, if a line has one.");
  fields.text("label_field", label_field,
              "With records = labels: the field with the class, a whole number from 0 on or one of "
              "data.labels; with records = numbers: the field with the number.");
  fields.list("labels", labels,
              "With records = labels: the names of the classes, in the order of their numbers; "
              "empty means that lines have numbers.");
  fields.text(
      "chat_template", chat_template,
      "With records = chats or preferences: a file with the Jinja template that turns a chat into "
      "text; "
      "empty means the one that comes with data.vocabulary_model.");
  fields.choice(
      "document", document,
      "What ends a document in a .txt file: a blank line, a blank line before a line that "
      "is not indented, the end of a line, the end of the file, or a line that is <|endoftext|>, "
      "<|end_of_text|>, <|eot|>, </s> or <eos>.");
  fields.choice(
      "invalid_utf8", invalid_utf8,
      "What to do with bytes that are not UTF-8: stop with an error, or replace them with U+FFFD.");
  fields.choice(
      "bad_lines", bad_lines,
      "What to do with lines of a .jsonl file that are not JSON, have no text in data.text_field, "
      "or cannot be read as text: stop with an error, or skip them and count them.");
  fields.choice("vocabulary", vocabulary,
                "How text becomes tokens: a SentencePiece model, byte-level BPE in a Hugging Face "
                "tokenizer.json, or one token for each byte.");
  fields.text(
      "vocabulary_model", vocabulary_model,
      "An existing vocabulary to use: a SentencePiece .model, or a Hugging Face "
      "tokenizer.json, or vocab.json with merges.txt beside it; empty means training one on "
      "the text.");
  fields.choice("vocabulary_type", vocabulary_type,
                "The kind of SentencePiece model to train; bpe takes seconds, unigram minutes.");
  fields.integer("vocabulary_size", vocabulary_size, "tokens", 16, 1 << 24,
                 "Size of the vocabulary to train.");
  fields.integer("vocabulary_sample_bytes", vocabulary_sample_bytes, "B", 1, kNoLimit,
                 "How much of the training text the vocabulary is trained on.");
  fields.number("validation_fraction", validation_fraction, "", 0, 0.5,
                "Share of the documents kept out of training for the set named validation.");
  fields.integer("validation_block", validation_block, "documents", 0, kNoLimit,
                 "Consecutive documents that go to the same side of the split; blocks of the two "
                 "sides are interleaved. 0 means 64, or fewer where the text has too few documents "
                 "for that; then at least one document is held out, and at least 4 kB of text or a "
                 "tenth of it, whichever is less.");
  fields.integer("shard_tokens", shard_tokens, "tokens", 1, kNoLimit, "Largest size of a shard.");
  fields.choice("fetch", fetch,
                "What a member of a run of many hosts receives of the run's data: all of it before "
                "it takes part, or the rows that it needs, ahead of the steps that train on them. "
                "Each member chooses.");
  fields.integer("fetch_cache", fetch_cache, "B", 1'000'000, kNoLimit,
                 "With fetch = needed: how much of the data is kept in memory.");
}

void ModelSection::describe(Fields& fields) {
  fields.text("architecture", architecture,
              "What the model computes; the table of its name has the fields that only it has.");
  fields.integer("vocab", vocab, "tokens", 0, 1 << 24,
                 "Rows of the embedding; 0 means the size of the prepared vocabulary.");
  fields.integer("hidden", hidden, "", 1, 1 << 20, "Width of the residual stream.");
  fields.integer("layers", layers, "", 1, 10'000, "Transformer blocks.");
  fields.integer("heads", heads, "", 1, 1 << 16, "Attention heads; hidden is divided among them.");
  fields.flag("tied", tied, "Whether the output head shares the embedding's weights.");
  fields.number(
      "init_std", init_std, "", 0, 10,
      "Standard deviation of the normal distribution that random weights are drawn from.");
  fields.choice(
      "recompute", recompute,
      "What the backward pass recomputes instead of keeping it from the forward pass: nothing; "
      "every block's queries, keys, values and attention; or everything in a block but its input. "
      "Recomputing saves memory and gives the same gradients, bit for bit.");
  fields.choice(
      "block_inputs", block_inputs, {Precision::kFp32, Precision::kBf16},
      "Number format in which recompute = \"block\" keeps the inputs of blocks; bf16 "
      "halves them, and blocks are recomputed from rounded inputs. The loss is the same.");
  fields.integer(
      "vocab_slabs", vocab_slabs, "", 1, 1 << 16,
      "With train.update = \"layer\": into how many slabs of rows embedding and head are cut, so "
      "that only one slab's gradient is held at a time; 1 means none. More than 1 saves memory and "
      "computes the last product once more. The loss is the same.");
}

void AdapterSection::describe(Fields& fields) {
  fields.choice("kind", kind,
                "Whether all of the model is trained, or only low-rank factors of matrices in its "
                "blocks; such a run synchronises and saves only what it trains.");
  fields.integer("rank", rank, "", 1, 1 << 20, "Smaller dimension of each factor.");
  fields.number_above("alpha", alpha, "", 0, 1e6,
                      "The product of two factors is scaled by alpha / rank.");
  fields.list("targets", targets,
              "Matrices that get factors: names, or patterns in which * stands for any text. They "
              "match a full name without .weight, or the part of it after any dot, e.g. "
              "\"q_proj\", \"layers.0.*\", \"*\".");
  fields.list(
      "whole", whole,
      "Further tensors to train, in full; chosen like targets, e.g. \"lm_head\", \"*norm\".");
  fields.text("init", init,
              "PEFT folder or run whose factors this one starts from; empty means new factors.");
}

void TrainSection::describe(Fields& fields) {
  fields.integer("steps", steps, "steps", 1, 1'000'000'000, "Optimizer steps of the run.");
  fields.integer("batch", batch, "rows", 1, 100'000'000,
                 "Rows of a step, divided among the workers.");
  fields.integer("microbatch", microbatch, "rows", 0, 100'000'000,
                 "Rows of one forward pass of a worker, which determines the memory needed; 0 "
                 "means its whole share of the batch.");
  fields.integer("sequence", sequence, "tokens", 1, 1 << 24, "Length of a row.");
  fields.integer("workers", workers, "", 1, 1 << 16, "Workers that train together.");
  fields.integer("threads", threads, "", 1, 1024, "Compute threads of each worker.");
  fields.choice("device", device,
                "What computes loss and gradients: the CPU, or the machine's GPUs (worker i on GPU "
                "i modulo the number of GPUs); auto means cuda where there is a GPU, else cpu; "
                "torch_cpu runs the code for cuda on the CPU.");
  fields.choice("precision", precision,
                "Number format of the matrix products; auto means bf16 where the device has "
                "instructions for it.");
  fields.choice(
      "weights", weights,
      "Number format in which weights are kept between steps. bf16 needs no fp32 copy: "
      "updated weights are rounded stochastically. With adapter.kind = lora, that of "
      "the weights which are not trained; nf4 keeps matrices among them in 4 bits, int8 in 8.");
  fields.choice("launcher", launcher,
                "What runs the workers: threads of this process, or the ranks of an MPI job, with "
                "one or several workers on each rank (mpirun -n RANKS thinwire train RECIPE).");
  fields.choice("update", update,
                "When weights are updated: once all gradients of a step are complete, or each "
                "tensor's during the backward pass as soon as its own is, so that gradients are "
                "never held all at once.");
  fields.flag("offload", offload,
              "Whether weights and optimizer state are kept in files, with only those in memory "
              "that are being used. Results are the same, bit for bit.");
  fields.text("offload_dir", offload_dir,
              "Folder for these files, on a local disk; they have no names, and are gone when the "
              "run ends. Empty means run.dir.");
  fields.flag("packing", packing,
              "With data.records other than text: whether a row holds as many records (or pairs of "
              "answers) as fit, one after the other, or only one; the rest is padding.");
  fields.flag("separate_documents", separate_documents,
              "Whether attention ends with each document or record, so that none sees those before "
              "it in its row.");
  fields.choice("long_records", long_records,
                "With data.records other than text: what to do with a record (or pair of answers) "
                "of more than sequence + 1 tokens: stop with an error, keep its first tokens, or "
                "leave it out.");
  fields.text("init", init,
              "Checkpoint or Hugging Face folder whose model the run starts from: its weights, and "
              "what [model] leaves out; with an external model a .safetensors file of its tensors; "
              "empty means random weights.");
}

void PreferenceSection::describe(Fields& fields) {
  fields.number_above("beta", beta, "", 0, 1e6,
                      "How strongly the trained model is held to the one it started from: a reward "
                      "is beta times the logarithm of how much likelier an answer has become.");
  fields.choice("loss", loss,
                "The loss of a pair of answers: DPO's, -log sigmoid of the difference of their "
                "rewards, or IPO's, with likelihoods per token.");
  fields.number("label_smoothing", label_smoothing, "", 0, 0.5,
                "With loss = sigmoid: the share of pairs assumed to be labelled the wrong way.");
}

void PrivacySection::describe(Fields& fields) {
  fields.number("clip", clip, "", 0, 1e6,
                "With data.own: the largest norm of what a member contributes to a sum, its change "
                "of the weights; a larger one is scaled down to it. 0 means no clipping.");
  fields.number("noise", noise, "", 0, 1e4,
                "With data.own: the standard deviation of the Gaussian noise that each member adds "
                "to each value of what it contributes, divided by clip. 0 means none.");
  fields.number_above("sampling", sampling, "", 0, 1,
                      "With noise: the probability with which a member contributes to a sum; it "
                      "draws in secret, and otherwise sends nothing but noise.");
  fields.number_above("delta", delta, "", 0, 1e-3,
                      "With noise: the delta for which the epsilon of a member is stated.");
  fields.flag(
      "secure_sums", secure_sums,
      "With data.own: members hide what they contribute by masks that cancel in the sum, so "
      "that the coordinator and other members see the sum only.");
}

void OptimSection::describe(Fields& fields) {
  fields.text("method", method,
              "The optimizer of every worker; each optimizer has a table of its own below.");
  fields.number_above("lr", lr, "", 0, 1e6, "Peak learning rate.");
  fields.number("weight_decay", weight_decay, "", 0, 100,
                "Decoupled weight decay: each step shrinks all weights but norms and biases by "
                "this times the learning rate.");
  fields.number("clip", clip, "", 0, kInfinity,
                "Largest norm of a gradient; a larger gradient is scaled down to it. 0 "
                "means no clipping.");
  fields.choice("clip_by", clip_by,
                "The norm that clip limits: that of the step's whole gradient; that of the "
                "previous step's, from which this step's scale is computed; or each tensor's own.");
  fields.choice("state", state,
                "Number format in which running means of gradients and of their squares are kept "
                "between steps; 8bit is floating-point numbers of 8 bits in blocks that share an "
                "exponent. Below fp32 they are rounded stochastically.");
  fields.choice("bases", bases,
                "The same for the bases and projections of low-rank optimizers (apollo, fira, "
                "galore, natural_galore).");
  fields.choice("gradients", gradients,
                "How gradients of matrices that the optimizer projects (galore, natural_galore) "
                "are formed: whole, or projected in the backward pass, so that they are whole only "
                "when a basis is renewed. Projected ones take less time and memory.");
}

void ScheduleSection::describe(Fields& fields) {
  fields.choice("kind", kind,
                "What the learning rate does after the warmup; wsd (warmup, stable, decay) stays "
                "at the peak, then falls linearly over the last decay steps.");
  fields.integer("warmup", warmup, "steps", 0, 1'000'000'000,
                 "Steps at the start during which the learning rate rises linearly.");
  fields.number("final_ratio", final_ratio, "", 0, 1,
                "Learning rate at the end, as a share of the peak.");
  fields.integer("decay", decay, "steps", 0, 1'000'000'000,
                 "Steps at the end during which the learning rate falls; only for kind wsd.");
}

void SyncSection::describe(Fields& fields) {
  fields.text("method", method,
              "How the workers stay in agreement; each method has a table of its own below.");
  fields.choice("within", within,
                "With a method whose workers train independently: how the workers of a cluster "
                "stay in agreement at every step; none means no clusters.");
  fields.integer("clusters", clusters, "", 0, 4096,
                 "With within: number of clusters of consecutive workers; one worker of each "
                 "exchanges with the other clusters.");
  fields.choice(
      "shares", shares,
      "How a step's rows are divided among the workers, and with them their weights: equally; by "
      "the speed that each worker showed in recent rounds; with data.own, by how many rows each "
      "member's own text has.");
  fields.choice(
      "aggregate", aggregate,
      "How the workers' contributions become one: their mean; the mean after norms above "
      "the median norm are scaled down to it; the mean of each coordinate without its smallest "
      "and largest values; or the sign that most workers have there.");
  fields.number(
      "trim", trim, "", 0, 0.5,
      "With aggregate = trimmed_mean: share of the workers whose values are left out of a "
      "coordinate at either end, rounded up; one value is always left.");
  fields.list("absent", absent,
              "Workers that are inactive for some rounds, as \"MEMBER=FIRST-LAST\", with rounds of "
              "sync_every steps counted from 1, e.g. \"2=3-5\".");
  fields.number_above("timeout_s", timeout_s, "s", 0, 1e6,
                      "How much longer than the others a worker may take: then the step fails, or "
                      "a round of many hosts closes without it. All other time limits derive from "
                      "it (docs/hosts.md), so less finds out sooner who is gone, and more lets "
                      "thinner lines take part.");
  fields.number_above(
      "quorum", quorum, "", 0.5, 1,
      "With `thinwire serve`: the share of a round's rows with which it closes without members "
      "that are slower than the others; 1 waits for everyone who is there.");
  fields.choice(
      "late", late,
      "With `thinwire serve`: what becomes of a contribution that arrives after its round "
      "was closed; count adds it to the sum when its fragment is next exchanged.");
  fields.choice(
      "sums", sums,
      "With `thinwire serve` and a method that sums dense values: who forms the sums, with the "
      "same "
      "bits. The coordinator, so that a member receives one buffer however many members there are; "
      "or each member for itself, from all members' buffers; auto is the coordinator where a "
      "member receives at least 1 MiB less, unless its own line proves too slow.");
}

void EvalSection::describe(Fields& fields) {
  fields.integer("every", every, "steps", 0, 1'000'000'000,
                 "Steps between evaluations; 0 means only at the end.");
  fields.integer("rows", rows, "rows", 0, kNoLimit,
                 "Rows of each validation set that are evaluated; 0 means all.");
  fields.text("watch", watch, "The validation set whose loss patience and checkpoint.best use.");
  fields.integer("patience", patience, "evaluations", 0, 1'000'000,
                 "The run ends once this many evaluations in a row have not lowered the loss on "
                 "the watched set; 0 means that it runs to its last step.");
  fields.list("tasks", tasks,
              "Tasks that every evaluation scores as well, as `thinwire eval` does: names such as "
              "arc_easy, or task files.");
  fields.text("data", data, "Folder of the tasks' data sets.");
  fields.integer("limit", limit, "items", 0, kNoLimit,
                 "How many items of each task are scored, from its first on; 0 means all.");
}

void CheckpointSection::describe(Fields& fields) {
  fields.integer("every", every, "steps", 0, 1'000'000'000,
                 "Steps between checkpoints; 0 means none by steps. One is always written at the "
                 "end and when the run is stopped.");
  fields.number("minutes", minutes, "min", 0, 1e6,
                "A checkpoint is also written once this much time has passed since the last one; 0 "
                "means none by time.");
  fields.integer("keep", keep, "checkpoints", 1, 1'000'000,
                 "Number of newest checkpoints to keep.");
  fields.flag(
      "best", best,
      "Whether to keep the checkpoint with the lowest loss on the validation set eval.watch as "
      "well, linked as `best` in the run folder; every evaluation then also writes a checkpoint.");
}

void LogSection::describe(Fields& fields) {
  fields.integer("every", every, "steps", 0, 1'000'000'000,
                 "Steps between progress lines when the output is not a terminal; 0 means a line "
                 "every ten seconds.");
  fields.flag("tensorboard", tensorboard, "Whether to write TensorBoard files as well.");
}

void LinksSection::describe(Fields& fields) {
  fields.number_above("down_bit_s", down_bit_s, "bit/s", 0, 1e18,
                      "Download rate of the links for which a run's time is reported.");
  fields.number_above("up_bit_s", up_bit_s, "bit/s", 0, 1e18,
                      "Upload rate of the links for which a run's time is reported.");
  fields.number("delay_s", delay_s, "s", 0, 1e6, "One-way delay of these links.");
  fields.number("loss", loss, "", 0, 0.99,
                "Share of the bytes on these links that is lost and sent again.");
  fields.number("step_s", step_s, "s", 0, 1e6,
                "Computation time of a training step; above 0 the run keeps virtual clocks and "
                "reports the time and utilization it would have had over these links.");
  fields.flag("paced", paced,
              "With launcher = mpi: ranks actually send and receive no faster than these links "
              "allow, and what they send arrives later by the links' delay.");
  fields.list("members", members,
              "Members whose link or step time differs, as \"MEMBER.FIELD=VALUE\", e.g. "
              "\"0.up_bit_s=5M\".");
}

}  // namespace thinwire::config
