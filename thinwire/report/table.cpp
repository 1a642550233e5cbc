#include "thinwire/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace thinwire::report {
namespace {

constexpr const char* kNothing = "–";

size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string padded(const std::string& text, size_t width, bool left) {
  const std::string blanks(width - std::min(width, width_of(text)), ' ');
  return left ? text + blanks : blanks + text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string replaced(std::string text, char from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, 1, to);
  }
  return text;
}

std::string one_line(const std::string& text) { return replaced(text, '\n', " "); }

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  return "\"" + replaced(text, '"', "\"\"") + "\"";
}

template <typename Cells, typename Text>
std::string joined(const Cells& cells, const char* separator, Text&& text) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) line += (i == 0 ? "" : separator) + text(i);
  return line;
}

void append_line(std::string line, std::string& out) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + "\n";
}

}  // namespace

std::string Table::terminal() const {
  std::vector<std::vector<std::string>> titles;
  std::vector<size_t> widths(columns.size());
  size_t height = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    titles.push_back(lines_of(columns[i].title));
    height = std::max(height, titles[i].size());
    for (const std::string& line : titles[i]) widths[i] = std::max(widths[i], width_of(line));
    for (const auto& row : rows) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string out;
  for (size_t line = 0; line < height; ++line) {
    append_line(joined(columns, "  ",
                       [&](size_t i) {
                         const size_t above = height - titles[i].size();
                         return padded(line < above ? "" : titles[i][line - above], widths[i],
                                       columns[i].left);
                       }),
                out);
  }
  append_line(joined(columns, "  ", [&](size_t i) { return std::string(widths[i], '-'); }), out);
  for (const auto& row : rows) {
    append_line(
        joined(row, "  ", [&](size_t i) { return padded(row[i], widths[i], columns[i].left); }),
        out);
  }
  return out;
}

std::string Table::markdown() const {
  const auto line = [](const auto& cells, const auto& text) {
    return "| " + joined(cells, " | ", text) + " |\n";
  };
  const auto cell = [](const std::string& text) { return replaced(one_line(text), '|', "\\|"); };
  std::string out = line(columns, [&](size_t i) { return cell(columns[i].title); });
  out += line(columns, [&](size_t i) { return std::string(columns[i].left ? ":--" : "--:"); });
  for (const auto& row : rows) out += line(row, [&](size_t i) { return cell(row[i]); });
  return out;
}

std::string Table::csv() const {
  std::string out =
      joined(columns, ",", [&](size_t i) { return csv_cell(columns[i].title); }) + "\n";
  for (const auto& row : rows)
    out += joined(row, ",", [&](size_t i) { return csv_cell(row[i]); }) + "\n";
  return out;
}

std::string number_cell(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : kNothing;
}

std::string ratio_cell(double value) {
  if (!std::isfinite(value) || value == 0) return kNothing;
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string exact_cell(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "";
}

}  // namespace thinwire::report
