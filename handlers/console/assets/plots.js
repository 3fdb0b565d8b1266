import uPlot from "./lib/uPlot.js";

const FONT = "12px system-ui, sans-serif";

/** A color of the theme. */
export const color = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();

export const axis = (more) => ({ stroke: () => color("--muted"), grid: { stroke: () => color("--line"), width: 1 }, ticks: { show: false }, font: FONT, labelFont: FONT, ...more });

/** The date of a moment for an axis: in UTC. */
export const utc = (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC");

/** Gives the legend of a plot the colors of the theme, which uPlot does when it makes the plot only. */
function paintLegend(u) {
  u.root.querySelectorAll(".u-marker").forEach((marker, i) => {
    if (i === 0) return; // the time has no color
    marker.style.borderColor = u.series[i].stroke(u, i);
    if (u.series[i].fill) marker.style.backgroundColor = u.series[i].fill(u, i);
  });
}

/** The plots of a page: add makes one, end removes all. */
export class Plots {
  constructor() {
    this.all = new Set();
    this.repaint = () => this.all.forEach(({ u }) => {
      u.redraw();
      paintLegend(u);
    });
    addEventListener("theme", this.repaint);
  }

  /** Puts a plot into box that is as wide as it. */
  add(box, options, data) {
    const { height = 260, ...rest } = options;
    const size = () => ({ width: Math.max(box.clientWidth, 120), height });
    const u = new uPlot({ ...size(), ...rest }, data, box);
    u.root.setAttribute("aria-hidden", "true"); // what it shows is in a sentence beside it
    const resized = new ResizeObserver(() => u.setSize(size()));
    resized.observe(box);
    const plot = { u, end: () => {
      resized.disconnect();
      u.destroy();
      this.all.delete(plot);
    } };
    this.all.add(plot);
    return plot;
  }

  end() {
    removeEventListener("theme", this.repaint);
    [...this.all].forEach((p) => p.end());
  }
}
