// Tables as text: aligned for a terminal, Markdown, or CSV.
#pragma once

#include <string>
#include <vector>

namespace thinwire::report {

struct Column {
  std::string title;  // may hold newlines, which become spaces except on a terminal
  bool left = false;  // align left; numbers are aligned right
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // as many cells as columns

  std::string terminal() const;  // two spaces between columns, a rule under the titles
  std::string markdown() const;
  std::string csv() const;  // RFC 4180, but lines end in \n
};

// A number with `decimals` decimals, or an en dash if it is not finite.
std::string number_cell(double value, int decimals);
// A ratio with three digits, e.g. "1.00", "52.6", "1840"; an en dash if it is 0 or not finite.
std::string ratio_cell(double value);
// A number in full precision: the shortest text that reads back as the same value; empty if it is
// not finite.
std::string exact_cell(double value);

}  // namespace thinwire::report
