// Line plots as PNG or SVG files, drawn by gnuplot (a child process that gets script and data
// through its standard input; no shell).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/file.h"

namespace thinwire::events {

struct PlotSeries {
  std::string label;
  std::vector<double> x;
  std::vector<double> y;  // as many as x; points that are not finite are left out
  bool points = false;    // drawn as points instead of a line
};

// The position of the legend.
enum class Legend : uint8_t { kTopRight, kBottomRight, kOutside, kBelow };

struct PlotSpec {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;  // points <= 0 are left out
  bool log_y = false;
  bool prefixes_x = false;  // ticks as 10k, 1M, 1G
  Legend legend = Legend::kTopRight;
  std::vector<PlotSeries> series;
  int width = 1200;  // pixels
  int height = 800;
};

// The file's name must end in .png or .svg; the file appears whole or not at all. Labels are plain
// text without special characters. Throws UsageError for another ending and Error when gnuplot is
// missing, nothing can be drawn, or gnuplot fails (with its message).
void plot_lines(const PlotSpec& spec, const fs::path& file);
// Several plots side by side in one image, as wide as all of them together.
void plot_panels(std::span<const PlotSpec> panels, const fs::path& file);

// Whether the program gnuplot is installed.
bool have_gnuplot();

// A running mean for noisy curves: each value becomes the mean of the values within `radius`
// positions of it, fewer at the ends. Values that are not finite are left out of the means.
std::vector<double> smooth(const std::vector<double>& values, int radius);

}  // namespace thinwire::events
