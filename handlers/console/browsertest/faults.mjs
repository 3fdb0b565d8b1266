/** Runs in a page: text whose contrast to its ground is below 4.5, and text that a box or the edge of the screen cuts off. */
export function faults() {
  const rgba = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = (c) => c.slice(0, 3).map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    if (!element) return [255, 255, 255, 1];
    const style = getComputedStyle(element);
    if (style.backgroundImage !== "none") return null; // stripes
    const color = rgba(style.backgroundColor);
    if (color[3] === 1) return color;
    const below = ground(element.parentElement);
    return below && over(color, below);
  };
  const found = new Set();
  const edge = document.documentElement.clientWidth;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const element = node.parentElement;
    const text = node.textContent.trim();
    // What only readers of screens get, what is off, and options, which the browser draws.
    if (!text || element.closest(".hidden, .skip, :disabled, option, script, noscript, .uplot") || !element.checkVisibility({ visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const rects = [...range.getClientRects()].filter((r) => r.width > 0);
    if (!rects.length || element.closest("thead")?.getBoundingClientRect().width <= 1) continue;
    const [right, left] = [Math.max(...rects.map((r) => r.right)), Math.min(...rects.map((r) => r.left))];
    for (let box = element; box && box !== document.body; box = box.parentElement) {
      if (getComputedStyle(box).overflowX === "visible") continue;
      const frame = box.getBoundingClientRect();
      if (right > frame.right + 1 || left < frame.left - 1) found.add(`cut off by ${box.tagName}.${box.className}: ${text.slice(0, 40)}`);
    }
    if (right > edge + 1) found.add(`beyond the screen: ${text.slice(0, 40)}`);
    const behind = ground(element);
    if (!behind) continue;
    const [a, b] = [light(over(rgba(getComputedStyle(element).color), behind)), light(behind)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.add(`contrast ${contrast.toFixed(2)}: ${element.tagName}.${element.className} ${element.dataset.reply ?? ""} ${text.slice(0, 40)}`);
  }
  return [...found];
}
