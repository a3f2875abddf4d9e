/** Growth curves as SVG: two axes, readable on a light and on a dark page. */

export interface Line {
  readonly name: string;
  /** Bare is drawn grey and dashed. */
  readonly side: "ours" | "bare";
  /** Size of the data, and the cost at that size. */
  readonly points: readonly (readonly [size: number, cost: number])[];
}

export interface Plot {
  /** Without `.svg`. */
  readonly file: string;
  readonly title: string;
  readonly sizes: string;
  readonly costs: string;
  readonly lines: readonly Line[];
}

const WIDTH = 720;
const ROW = 20;
const BOX = { left: 64, right: 20, top: 44, height: 240 } as const;
const STEPS = 4;
const HUES = ["#2f81f7", "#d9730d", "#1a9c6c", "#b35bd6", "#c2410c", "#0e9aa7"] as const;
const STYLE = `text { font: 13px system-ui, sans-serif; fill: #1f2328 } .minor { fill: #59636e } .grid { stroke: #d1d9e0 }
  .axis { stroke: #59636e } path { fill: none; stroke-width: 2 } .bare { stroke: #818b98; stroke-dasharray: 6 4 }
  @media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .minor { fill: #9198a1 } .grid { stroke: #3d444d }
    .axis { stroke: #9198a1 } }`;

/** Sizes on a logarithmic axis, costs on a linear one from zero. Lines without a point are left out. */
export function svg({ title, sizes, costs, lines }: Plot): string {
  const drawn = lines.filter(({ points }) => points.length > 0);
  const every = drawn.flatMap(({ points }) => points);
  const xs = [...new Set(every.map(([size]) => size))].sort((a, b) => a - b);
  const [least = 1, most = 10] = [xs[0], xs.at(-1)];
  const top = nice(Math.max(...every.map(([, cost]) => cost), 1));
  const bottom = BOX.top + BOX.height;
  const height = bottom + 56 + ROW * drawn.length;
  const inner = WIDTH - BOX.left - BOX.right;
  const x = (size: number) =>
    BOX.left + (most === least ? 0.5 : Math.log(size / least) / Math.log(most / least)) * inner;
  const y = (cost: number) => bottom - (cost / top) * BOX.height;
  const levels = Array.from({ length: STEPS + 1 }, (_, step) => (top * step) / STEPS);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(title)}">`,
    `<style>${STYLE}</style>`,
    text(BOX.left, 20, title),
    text(BOX.left, 37, costs, "minor"),
    ...levels.flatMap((level) => [
      `<line class="${level === 0 ? "axis" : "grid"}" x1="${BOX.left}" x2="${WIDTH - BOX.right}" y1="${at(y(level))}" y2="${at(y(level))}"/>`,
      text(BOX.left - 8, y(level) + 4, spaced(level), "minor", "end"),
    ]),
    `<line class="axis" x1="${BOX.left}" x2="${BOX.left}" y1="${BOX.top}" y2="${bottom}"/>`,
    ...xs.map((size) => text(x(size), bottom + 18, spaced(size), "minor", anchor(size, least, most))),
    text(WIDTH - BOX.right, bottom + 36, sizes, "minor", "end"),
    ...drawn.flatMap((line, number) => {
      const points = line.points.map(([size, cost]) => [at(x(size)), at(y(cost))] as const);
      const row = bottom + 52 + ROW * number;
      const ink = line.side === "bare" ? 'class="bare"' : `stroke="${HUES[number % HUES.length]}"`;
      const dot = line.side === "bare" ? "#818b98" : HUES[number % HUES.length];
      return [
        `<path ${ink} d="M${points.map((point) => point.join(" ")).join(" L")}"/>`,
        ...points.map(([cx, cy]) => `<circle cx="${cx}" cy="${cy}" r="3.5" fill="${dot}"/>`),
        `<path ${ink} d="M${BOX.left} ${row} h28"/>`,
        text(BOX.left + 38, row + 4, line.name),
      ];
    }),
    "</svg>",
    "",
  ].join("\n");
}

/** The next round number: 1, 2, 4 or 8 times a power of ten. */
function nice(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 4, 8, 10].find((factor) => factor * power >= value) ?? 10) * power;
}

const anchor = (size: number, least: number, most: number): string =>
  least === most ? "middle" : size === least ? "start" : size === most ? "end" : "middle";

const text = (left: number, baseline: number, content: string, kind = "", align = "start"): string =>
  `<text x="${at(left)}" y="${at(baseline)}"${kind && ` class="${kind}"`} text-anchor="${align}">${escaped(content)}</text>`;

const at = (value: number): string => value.toFixed(1);
const spaced = (value: number): string =>
  value >= 1000 ? Math.round(value).toLocaleString("en").replaceAll(",", " ") : String(Number(value.toPrecision(3)));
const escaped = (content: string): string =>
  content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
