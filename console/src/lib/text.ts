/** Numbers, sizes and names as text. */
import { engineDescriptions } from "../../../src/credentials/engines/descriptions.ts";
import { descriptions } from "../../../src/sync/destinations/descriptions.ts";

const number = new Intl.NumberFormat("en");

export const count = (value: number): string => number.format(value);

/** `1 secret`, `3 secrets`. */
export const plural = (value: number, one: string, many = `${one}s`): string =>
  `${count(value)} ${value === 1 ? one : many}`;

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function sizeText(bytes: number): string {
  let size = bytes;
  let unit = 0;
  while (size >= 1024 && unit < SIZES.length - 1) {
    size /= 1024;
    unit++;
  }
  return `${Number(size.toFixed(size < 10 ? 1 : 0))} ${SIZES[unit]}`;
}

/** The names that people know the providers by. */
const PROVIDERS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(descriptions.map(({ type, label }) => [type, label])),
  ...Object.fromEntries(engineDescriptions.map(({ type, label }) => [type, label])),
  kv: "Key/value",
};

export const providerName = (type: string): string => PROVIDERS[type] ?? type;

/** Collator for names: `a2` before `a10`. */
export const byName = new Intl.Collator("en", { numeric: true, sensitivity: "base" }).compare;
