// Tables as text: aligned for a terminal, Markdown, or CSV.
#pragma once

#include <string>
#include <vector>

namespace thinwire::report {

struct Column {
  std::string title;  // may hold line ends, kept on a terminal and spaces elsewhere
  bool left = false;  // aligned left; numbers stand on the right
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // as many cells as columns

  std::string terminal() const;  // two blanks between columns, a rule under the titles
  std::string markdown() const;
  std::string csv() const;  // RFC 4180, but lines end in \n
};

// A number with `decimals` places, or an en dash where there is none (not finite).
std::string number_cell(double value, int decimals);
// A ratio in three digits, e.g. "1.00", "52.6", "1840"; an en dash where it is 0 or not finite.
std::string ratio_cell(double value);
// A number for machines: shortest text that reads back the same, empty where it is not finite.
std::string exact_cell(double value);

}  // namespace thinwire::report
