// A map of weights: rectangles whose areas are weights, as square as they get
// (Bruls, Huizing, van Wijk: Squarified Treemaps).

/** Places of areas, which descend, in a rectangle of width and height: [x, y, width, height] each. */
export function squarify(areas, width, height) {
  const total = areas.reduce((a, b) => a + b, 0);
  if (!(total > 0)) return areas.map(() => [0, 0, 0, 0]);
  const scale = (width * height) / total;
  const places = [];
  let [x, y, w, v] = [0, 0, width, height];
  let row = [];
  let sum = 0;
  const worst = (list, of, side) => {
    const s2 = of * of;
    const l2 = side * side;
    return Math.max((l2 * list[0]) / s2, s2 / (l2 * list[list.length - 1]));
  };
  const lay = () => {
    if (!row.length) return;
    const side = Math.min(w, v);
    const depth = side > 0 ? sum / side : 0;
    let at = 0;
    for (const area of row) {
      const length = depth > 0 ? area / depth : 0;
      places.push(w >= v ? [x, y + at, depth, length] : [x + at, y, length, depth]);
      at += length;
    }
    if (w >= v) [x, w] = [x + depth, w - depth];
    else [y, v] = [y + depth, v - depth];
    [row, sum] = [[], 0];
  };
  for (const each of areas) {
    const area = Math.max(each * scale, 1e-9);
    const side = Math.min(w, v);
    if (row.length && worst([...row, area], sum + area, side) > worst(row, sum, side)) lay();
    row.push(area);
    sum += area;
  }
  lay();
  return places;
}
