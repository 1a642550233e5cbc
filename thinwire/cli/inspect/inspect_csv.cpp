#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/inspect/inspect.h"

namespace thinwire::cli {
namespace {

using Record = std::vector<std::string>;

// Takes a cell off the text; a quoted one may hold commas, newlines and doubled quotes.
std::string take_cell(std::string_view& text) {
  std::string cell;
  bool quoted = false;
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      const bool doubled = quoted && text.substr(at + 1).starts_with('"');
      if (doubled) cell += text[++at];
      if (!doubled) quoted = !quoted;
    } else if (!quoted && (c == ',' || c == '\n')) {
      break;
    } else {
      cell += c;
    }
  }
  text.remove_prefix(at);
  return cell;
}

// The table's rows, titles first, as Table::csv writes them (RFC 4180).
std::vector<Record> records_of(std::string_view text) {
  std::vector<Record> records;
  while (!text.empty()) {
    Record& record = records.emplace_back();
    record.push_back(take_cell(text));
    while (text.starts_with(',')) {
      text.remove_prefix(1);
      record.push_back(take_cell(text));
    }
    if (!text.empty()) text.remove_prefix(1);
  }
  return records;
}

}  // namespace

std::string describe_csv(const fs::path& file) {
  const std::string text = read_text_file(file);
  const std::vector<Record> records = records_of(text);
  if (records.empty()) throw Error(fmt::format("{} is empty", file.string()));
  const Record& titles = records.front();
  for (size_t i = 1; i < records.size(); ++i) {
    if (records[i].size() == titles.size()) continue;
    throw Error(fmt::format("{} is damaged: its row {} has {}, not {}", file.string(), i,
                            counted(records[i].size(), "cell"), titles.size()));
  }
  return fmt::format("{} of {}: {}\n", counted(records.size() - 1, "row"),
                     counted(titles.size(), "column"), fmt::join(titles, ", "));
}

}  // namespace thinwire::cli
