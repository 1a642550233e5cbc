#include "thinwire/events/plot.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

#include "thinwire/base/error.h"
#include "thinwire/base/process.h"

namespace thinwire::events {
namespace {

// Okabe and Ito's colours, distinguishable with any kind of colour vision, in an order that keeps
// neighbours distinct.
constexpr std::array<std::string_view, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#e69f00", "#56b4e9", "#4d4d4d"};

// Each round through the colours has its own dashes.
constexpr size_t kDashes = 5;

// A gnuplot string literal that shows `text` as it is. In single quotes only the quote itself is
// special; newlines would end the command.
std::string string_literal(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') result += '\'';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + "'";
}

bool drawable(const PlotSpec& spec, double x, double y) {
  return std::isfinite(x) && std::isfinite(y) && !(spec.log_x && x <= 0) && !(spec.log_y && y <= 0);
}

std::string block_name(size_t panel, size_t index) {
  return fmt::format("$panel{}_series{}", panel, index);
}

// Appends the series as a data block and returns how many points it has.
size_t append_points(const PlotSpec& spec, size_t panel, size_t index, std::string& script) {
  const PlotSeries& series = spec.series[index];
  if (series.x.size() != series.y.size()) {
    throw Error(fmt::format("cannot plot {}: {} x values for {} y values", series.label,
                            series.x.size(), series.y.size()));
  }
  size_t points = 0;
  auto out = std::back_inserter(script);
  fmt::format_to(out, "{} << END_OF_SERIES\n", block_name(panel, index));
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!drawable(spec, series.x[i], series.y[i])) continue;
    fmt::format_to(out, "{:.9g} {:.9g}\n", series.x[i], series.y[i]);
    ++points;
  }
  script += "END_OF_SERIES\n";
  return points;
}

std::string terminal(int width, int height, bool svg) {
  return fmt::format("set terminal {} size {},{} noenhanced font 'Sans,{}' background '#ffffff'\n",
                     svg ? "svg" : "pngcairo", width, height, svg ? 18 : 15);
}

std::string_view key_place(Legend legend) {
  switch (legend) {
    case Legend::kTopRight:
      return "top right";
    case Legend::kBottomRight:
      return "bottom right";
    case Legend::kOutside:
      return "outside right top";
    case Legend::kBelow:
      return "below horizontal";
  }
  return "";
}

std::string decoration(const PlotSpec& spec) {
  std::string script =
      "reset\n"
      "set encoding utf8\n"
      "set border 3 linecolor rgb '#808080' linewidth 1\n"
      "set tics nomirror out scale 0.6 textcolor rgb '#404040'\n"
      "set grid xtics ytics linecolor rgb '#e4e4e4' linewidth 1 linetype 1\n"
      "set lmargin 11\n";
  script +=
      fmt::format("set key {} opaque samplen 2 spacing 1.3 textcolor rgb '#202020' Left reverse\n",
                  key_place(spec.legend));
  // A legend beside the curves makes its own margin; one below does not allow for the axis label.
  if (spec.legend != Legend::kOutside) script += "set rmargin 4\n";
  const size_t rows = spec.legend == Legend::kBelow ? (spec.series.size() + 1) / 2 : 0;
  script += fmt::format("set bmargin {}\n", 4 + rows + rows / 2);
  script +=
      fmt::format("set title {} font ',19' textcolor rgb '#202020'\n", string_literal(spec.title));
  script += fmt::format("set xlabel {} textcolor rgb '#202020'\n", string_literal(spec.x_label));
  script += fmt::format("set ylabel {} offset -1,0 textcolor rgb '#202020'\n",
                        string_literal(spec.y_label));
  if (spec.log_x) script += "set logscale x\n";
  if (spec.prefixes_x) script += "set format x '%.0s%c'\n";
  if (spec.log_y) script += "set logscale y\n";
  return script;
}

std::string panel_script(const PlotSpec& spec, size_t panel) {
  std::string script = decoration(spec);
  std::string curves;
  for (size_t i = 0; i < spec.series.size(); ++i) {
    const size_t points = append_points(spec, panel, i, script);
    if (points == 0) continue;
    curves += fmt::format(
        "{}{} using 1:2 with {} linewidth 2.2 dashtype {} pointtype 7 linecolor rgb '{}' "
        "title {}",
        curves.empty() ? "plot " : ", \\\n     ", block_name(panel, i),
        points == 1 || spec.series[i].points ? "points" : "lines",
        i / kColours.size() % kDashes + 1, kColours[i % kColours.size()],
        string_literal(spec.series[i].label));
  }
  if (curves.empty())
    throw Error(fmt::format("cannot plot {}: there is no point to draw", spec.title));
  return script + curves + "\n";
}

std::string make_script(std::span<const PlotSpec> panels, const fs::path& output, bool svg) {
  int width = 0;
  int height = 0;
  for (const PlotSpec& spec : panels) {
    width += spec.width;
    height = std::max(height, spec.height);
  }
  std::string script = terminal(width, height, svg);
  script += fmt::format("set output {}\n", string_literal(output.string()));
  const bool several = panels.size() > 1;
  if (several) script += fmt::format("set multiplot layout 1,{}\n", panels.size());
  for (size_t i = 0; i < panels.size(); ++i) script += panel_script(panels[i], i);
  if (several) script += "unset multiplot\n";
  return script + "set output\n";
}

bool is_svg(const fs::path& file) {
  const std::string ending = file.extension().string();
  if (ending == ".svg") return true;
  if (ending == ".png") return false;
  throw UsageError(
      fmt::format("cannot plot to '{}': the name must end in .png or .svg", file.string()));
}

}  // namespace

bool have_gnuplot() { return !find_program("gnuplot").empty(); }

void plot_lines(const PlotSpec& spec, const fs::path& file) { plot_panels({&spec, 1}, file); }

void plot_panels(std::span<const PlotSpec> panels, const fs::path& file) {
  const bool svg = is_svg(file);
  if (!have_gnuplot()) {
    throw Error(fmt::format(
        "cannot plot {}: the program gnuplot is not installed (Debian package gnuplot-nox)",
        file.string()));
  }
  AtomicFile out(file);  // before gnuplot finds that it cannot write there
  const std::string drawing = file.string() + ".drawing";
  const ProcessOutput run =
      run_process({find_program("gnuplot"), "-"}, make_script(panels, drawing, svg));
  if (!run.state.ok() || !fs::exists(drawing)) {
    fs::remove(drawing);
    throw Error(fmt::format("cannot plot {}: gnuplot ended with {}: {}", file.string(),
                            run.state.describe(), run.text));
  }
  out.write(read_text_file(drawing));
  out.commit();
  fs::remove(drawing);
}

std::vector<double> smooth(const std::vector<double>& values, int radius) {
  const auto size = static_cast<int64_t>(values.size());
  std::vector<double> result(values.size(), std::nan(""));
  for (int64_t i = 0; i < size; ++i) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t j = std::max<int64_t>(0, i - radius); j <= std::min(size - 1, i + radius); ++j) {
      if (!std::isfinite(values[j])) continue;
      sum += values[j];
      ++count;
    }
    if (count > 0) result[i] = sum / static_cast<double>(count);
  }
  return result;
}

}  // namespace thinwire::events
