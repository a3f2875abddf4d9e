/**
 * Writes src/objects/migrations.pins.json: a digest of each step of each object's schema. Run it after adding a step.
 * Pinned steps were released and never change; a test compares them, and this script refuses to pin them again.
 */
import { createHash } from "node:crypto";
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** Digests of steps, by the name of their list. */
type Pins = Readonly<Record<string, readonly string[]>>;

const ROOT = join(import.meta.dirname, "..");
const FILE = join(ROOT, "src/objects/migrations.pins.json");

export const pinned = (): Pins => JSON.parse(readFileSync(FILE, "utf8")) as Pins;

/** The steps that the sources hold: every exported list of migrations. */
export async function stepsOfSources(): Promise<Record<string, readonly string[]>> {
  const found: Record<string, readonly string[]> = {};
  for (const path of globSync("src/**/*.ts", { cwd: ROOT }).sort()) {
    const names = [...readFileSync(join(ROOT, path), "utf8").matchAll(/^export const (\w+): Migration\[\]/gm)];
    if (names.length === 0) continue;
    const module = (await import(pathToFileURL(join(ROOT, path)).href)) as Record<string, readonly string[]>;
    for (const [, name = ""] of names) found[name] = module[name] ?? [];
  }
  return found;
}

export const digestOf = (step: string): string => createHash("sha256").update(step).digest("hex").slice(0, 16);

/** Changed or missing pinned steps, one line each. */
export function broken(pins: Pins, steps: Readonly<Record<string, readonly string[]>>): string[] {
  return Object.entries(pins).flatMap(([list, digests]) =>
    digests.flatMap((digest, position) => {
      const step = steps[list]?.[position];
      if (!step) return [`${list}: step ${position + 1} is gone`];
      return digestOf(step) === digest ? [] : [`${list}: step ${position + 1} was changed; add a new one instead`];
    }),
  );
}

async function main(): Promise<void> {
  const steps = await stepsOfSources();
  const problems = broken(pinned(), steps);
  if (problems.length > 0) throw new Error(problems.join("\n"));
  const pins: Pins = Object.fromEntries(Object.entries(steps).map(([name, list]) => [name, list.map(digestOf)]));
  writeFileSync(FILE, `${JSON.stringify(pins, null, 2)}\n`);
}

if (import.meta.main) await main();
