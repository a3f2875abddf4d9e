/** Text of machines: commands, JSON, policies. */
import { shown } from "../lib/exact-json.ts";
import { CopyButton } from "./copy.tsx";

export function Code({
  text,
  label,
  wrap = false,
}: {
  readonly text: string;
  readonly label: string;
  readonly wrap?: boolean;
}) {
  return (
    <div class="code">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <pre class={wrap ? "wrap" : ""} tabIndex={0} role="group" aria-label={label}>
        <code>{text}</code>
      </pre>
      <CopyButton text={text} label={label} />
    </div>
  );
}

export function Json({ value, label }: { readonly value: unknown; readonly label: string }) {
  return <Code text={typeof value === "string" ? JSON.stringify(value) : shown(value)} label={label} />;
}
