#include "thinwire/events/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <limits>

#include "tests/errors.h"
#include "thinwire/base/error.h"

namespace thinwire::events {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using tests::error_of;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

fs::path fresh_file(const std::string& name) {
  fs::path file = fs::path(testing::TempDir()) / name;
  fs::remove(file);
  return file;
}

PlotSpec example() {
  PlotSpec spec;
  spec.title = "Training loss: it's 100 % {plain} \\text\nwith_a_second line";
  spec.x_label = "step";
  spec.y_label = "loss (nats a token)";
  PlotSeries adamw{"allreduce, seed 1", {}, {}};
  PlotSeries distro{"distro 'k_8' $a `b` \"c\" %d @x", {}, {}};
  for (int step = 1; step <= 500; ++step) {
    adamw.x.push_back(step);
    adamw.y.push_back(4 + 4.3 * std::exp(-step / 90.0) + 0.03 * std::sin(step * 0.7));
    distro.x.push_back(step);
    distro.y.push_back(4.2 + 4.1 * std::exp(-step / 60.0) + 0.03 * std::cos(step * 0.9));
  }
  spec.series = {adamw, distro, {"one point", {250}, {6}}, {"nothing", {1, 2}, {kNan, kNan}}};
  return spec;
}

class Plot : public testing::Test {
 protected:
  void SetUp() override {
    if (!have_gnuplot()) GTEST_SKIP() << "gnuplot (Debian package gnuplot-nox) is not installed";
  }
};

TEST_F(Plot, DrawsAPngOfTheAskedSize) {
  const fs::path file = fresh_file("plot_example.png");
  plot_lines(example(), file);
  const std::string png = read_text_file(file);
  ASSERT_THAT(png, StartsWith("\x89PNG\r\n"));
  ASSERT_GT(png.size(), 10'000U);
  EXPECT_EQ(png.substr(16, 8), std::string("\0\0\x04\xb0\0\0\x03\x20", 8));
}

TEST_F(Plot, ShowsLabelsAsTheyAre) {
  const fs::path file = fresh_file("plot_example.svg");
  plot_lines(example(), file);
  const std::string svg = read_text_file(file);
  EXPECT_THAT(svg, HasSubstr("it's 100 % {plain} \\text with_a_second line"));
  EXPECT_THAT(svg, HasSubstr("distro 'k_8' $a `b` \"c\" %d @x"));
  EXPECT_THAT(svg, HasSubstr("one point"));
  EXPECT_THAT(svg, testing::Not(HasSubstr("nothing")));
}

TEST_F(Plot, LeavesOutWhatALogAxisCannotShow) {
  PlotSpec spec;
  spec.log_x = spec.log_y = true;
  spec.series = {{"a", {0, 1, 10, 100}, {5, 0, 1e-3, 1e3}}};
  const fs::path file = fresh_file("plot_log.png");
  plot_lines(spec, file);
  EXPECT_TRUE(fs::exists(file));
  spec.series = {{"a", {0, 1}, {5, 0}}};
  EXPECT_THAT(error_of([&] { plot_lines(spec, file); }), HasSubstr("there is no point to draw"));
}

TEST_F(Plot, ReportsWhatGnuplotSays) {
  PlotSpec spec = example();
  spec.width = -1;
  const fs::path file = fresh_file("plot_failed.png");
  EXPECT_THAT(error_of([&] { plot_lines(spec, file); }), HasSubstr("gnuplot ended with"));
  EXPECT_FALSE(fs::exists(file));
}

TEST(PlotWithoutGnuplot, SaysWhatIsMissing) {
  const std::string path = getenv("PATH");
  setenv("PATH", "/nonexistent", 1);
  const std::string error = error_of([] { plot_lines(example(), fresh_file("plot_none.png")); });
  setenv("PATH", path.c_str(), 1);
  EXPECT_THAT(error, HasSubstr("gnuplot is not installed (Debian package gnuplot-nox)"));
}

TEST(PlotWithoutGnuplot, RefusesAnUnknownEnding) {
  EXPECT_THROW(plot_lines(example(), "plot.gif"), UsageError);
}

TEST(PlotWithoutGnuplot, RefusesSeriesOfUnequalLengths) {
  if (!have_gnuplot()) GTEST_SKIP() << "gnuplot (Debian package gnuplot-nox) is not installed";
  PlotSpec spec;
  spec.series = {{"a", {1, 2}, {1}}};
  EXPECT_THAT(error_of([&] { plot_lines(spec, fresh_file("plot_unequal.png")); }),
              HasSubstr("cannot plot a: 2 x values for 1 y values"));
}

TEST(Smooth, IsAMeanOverNeighboursWithoutGaps) {
  EXPECT_THAT(smooth({1, 2, 6, kNan, 4}, 1), ElementsAre(1.5, 3, 4, 5, 4));
  EXPECT_THAT(smooth({3, 1}, 0), ElementsAre(3, 1));
  EXPECT_TRUE(smooth({}, 3).empty());
}

}  // namespace
}  // namespace thinwire::events
