/** The playground's providers: credentials of its accounts, and faults of its servers. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Bench } from "./setup.ts";

/** The body of a destination, or of an engine's configuration. */
export const providerBody = (bench: Bench, name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(join(bench.providers, `${name}.json`), "utf8")) as Record<string, unknown>;

/** A variable of the playground, such as `CLOUD_A`, the address under which a provider is controlled. */
export function providerValue(bench: Bench, name: string): string {
  const found = new RegExp(`^export ${name}='?([^'\n]+)'?$`, "m").exec(
    readFileSync(join(bench.providers, "providers.sh"), "utf8"),
  );
  if (!found?.[1]) throw new Error(`the playground has no ${name}`);
  return found[1];
}

export async function control(url: string, method: string, body?: unknown): Promise<unknown> {
  const response = await fetch(url, { method, body: body === undefined ? null : JSON.stringify(body) });
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status}`);
  const text = await response.text();
  return text === "" ? null : JSON.parse(text);
}
