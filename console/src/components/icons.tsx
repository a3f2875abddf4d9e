/**
 * Icons of 16 × 16 units, drawn with the colour of the text. They never stand alone for a meaning: a label is beside or
 * behind them.
 */

const PATHS = {
  mark: "M2 15V7a6 6 0 0 1 12 0v8h-3V7a3 3 0 0 0-6 0v8zm5 0V8h2v7z",
  overview: "M2 2h5v6H2zm7 0h5v3H9zM9 7h5v7H9zM2 10h5v4H2z",
  secrets:
    "M10.5 1.5a4 4 0 0 0-3.9 4.9L1.5 11.5v3h3v-2h2v-2h1.5l1.6-1.1a4 4 0 1 0 .9-7.9m1 2.5a1.2 1.2 0 1 1 0 2.4 1.2 1.2 0 0 1 0-2.4",
  sync: "M3 6.5A5.2 5.2 0 0 1 12.4 5M13 2v3.5H9.5M13 9.5A5.2 5.2 0 0 1 3.6 11M3 14v-3.5h3.5",
  credentials: "M1.5 3.5h13v9h-13zM4 10h4M4 6.2a1.6 1.6 0 1 0 3.2 0 1.6 1.6 0 0 0-3.2 0M10 6.5h2.5M10 9.5h2.5",
  events: "M1.5 8.5h3l2-5.5 3 10 2-4.5h3",
  storage:
    "M2.5 4c0-1.2 2.5-2 5.5-2s5.5.8 5.5 2-2.5 2-5.5 2-5.5-.8-5.5-2v8c0 1.2 2.5 2 5.5 2s5.5-.8 5.5-2V4M2.5 8c0 1.2 2.5 2 5.5 2s5.5-.8 5.5-2",
  nodes: "M2 2.5h12v4.5H2zM2 9h12v4.5H2zM4.5 4.75h1M4.5 11.25h1M8 4.75h3.5M8 11.25h3.5",
  access: "M8 1.5l5.5 2v4c0 3.3-2.3 5.8-5.5 7-3.2-1.2-5.5-3.7-5.5-7v-4zM5.7 8l1.7 1.7 3-3.2",
  bell: "M3.5 11.5V7a4.5 4.5 0 0 1 9 0v4.5l1 1.5h-11zM6.5 13a1.5 1.5 0 0 0 3 0",
  audit: "M3.5 1.5h6l3 3v10h-9zM9.5 1.5v3h3M5.5 7.5h5M5.5 10h5M5.5 12.3h3",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.3 10.3L14 14",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  eye: "M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8M6 8a2 2 0 1 0 4 0 2 2 0 0 0-4 0",
  hide: "M2.5 2.5l11 11M6 3.8A6 6 0 0 1 8 3.5c4 0 6.5 4.5 6.5 4.5a12 12 0 0 1-2 2.5M4 5a12 12 0 0 0-2.5 3S4 12.5 8 12.5c1 0 1.8-.2 2.6-.6M6.7 6.7a2 2 0 0 0 2.6 2.6",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  check: "M3 8.5l3.5 3.5L13 4.5",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  menu: "M2 4h12M2 8h12M2 12h12",
  more: "M3 8a1 1 0 1 0 2 0 1 1 0 0 0-2 0M7 8a1 1 0 1 0 2 0 1 1 0 0 0-2 0M11 8a1 1 0 1 0 2 0 1 1 0 0 0-2 0",
  refresh: "M13 8a5 5 0 1 1-1.5-3.6M13 2v3.5H9.5",
  terminal: "M1.5 2.5h13v11h-13zM4 6l2.5 2L4 10M8 10.5h4",
  file: "M3.5 1.5h6l3 3v10h-9zM9.5 1.5v3h3M8 12V7M5.7 9.2L8 7l2.3 2.2",
  folder: "M1.5 3.5h4.5l1.5 2h7v7.5h-13z",
  key: "M8.5 7.5a3 3 0 1 0-1 1l5 5 1.5-1.5-1-1 1-1-1.5-1.5-1.5 1.5",
  lock: "M3.5 7h9v7h-9zM5.5 7V5a2.5 2.5 0 0 1 5 0v2",
  logout: "M6.5 2.5h-4v11h4M6 8h8M11 5l3 3-3 3",
  user: "M8 8.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6M2.5 14c.5-2.5 2.7-4 5.5-4s5 1.5 5.5 4",
  external: "M6.5 3.5h-4v10h10v-4M9.5 2.5h4v4M13.5 2.5L7.5 8.5",
  light: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  dark: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7",
  trash: "M2.5 4.5h11M6 4.5v-2h4v2M4 4.5l.7 9h6.6l.7-9M6.7 7v4M9.3 7v4",
  edit: "M2.5 13.5v-2.5l8.5-8.5 2.5 2.5-8.5 8.5z",
  clock: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M8 4.5V8l2.5 1.5",
  pause: "M5 3v10M11 3v10",
  play: "M4.5 2.5v11l9-5.5z",
  link: "M6.5 9.5a2.5 2.5 0 0 0 3.5 0l2.5-2.5A2.5 2.5 0 0 0 9 3.5l-1 1M9.5 6.5a2.5 2.5 0 0 0-3.5 0L3.5 9A2.5 2.5 0 0 0 7 12.5l1-1",
  namespaces: "M8 1.5v4M3.5 10.5v-2.5h9v2.5M8 5.5V8M2 10.5h3v3.5H2zM11 10.5h3v3.5h-3zM6.5 1.5h3v4h-3z",
} as const;

export type IconName = keyof typeof PATHS;

const FILLED: ReadonlySet<IconName> = new Set(["mark", "more"]);

export function Icon({ name, size = 16 }: { readonly name: IconName; readonly size?: number }) {
  const isFilled = FILLED.has(name);
  return (
    <svg class="icon" viewBox="0 0 16 16" width={size} height={size} aria-hidden="true" focusable="false">
      <path d={PATHS[name]} fill={isFilled ? "currentColor" : "none"} stroke={isFilled ? "none" : "currentColor"} />
    </svg>
  );
}
