/** Status as a shape and a word: colour is never the only difference. */

export type Tone = "ok" | "wait" | "warn" | "bad" | "off" | "info";

/** One shape for each tone, so that they differ without colour. */
const SHAPES: Readonly<Record<Tone, string>> = {
  ok: "M5 1a4 4 0 1 0 0 8 4 4 0 0 0 0-8z",
  wait: "M5 1a4 4 0 0 0 0 8V7.6a2.6 2.6 0 0 1 0-5.2zM6 1.1v1.4a2.6 2.6 0 0 1 0 5V8.9a4 4 0 0 0 0-7.8z",
  warn: "M5 .6L9.8 9H.2z",
  bad: "M1 1h8v8H1z",
  off: "M1 4h8v2H1z",
  info: "M5 0l5 5-5 5-5-5z",
};

export function Status({
  tone,
  children,
  title,
}: {
  readonly tone: Tone;
  readonly children: string;
  readonly title?: string | undefined;
}) {
  return (
    <span class={`status status-${tone}`} title={title}>
      <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
        <path d={SHAPES[tone]} fill="currentColor" />
      </svg>
      <span>{children}</span>
    </span>
  );
}

/** A small word beside a name, without a state. */
export function Tag({ children }: { readonly children: string }) {
  return <span class="tag">{children}</span>;
}
