const NANOSECONDS: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  μs: 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3600e9,
};
/** A duration is 64 bits of nanoseconds, some 292 years. */
const MAX_MS = 2 ** 63 / 1e6;

/**
 * Parses a Go duration: `300ms`, `1.5h`, `-5m30s`, `0`. Unlike in request bodies (fields.ts), bare numbers and days are
 * invalid.
 * @returns milliseconds, with a fraction; null when invalid
 */
export function parseGoDuration(text: string): number | null {
  const [, sign, rest = ""] = /^([+-]?)(.*)$/s.exec(text) ?? [];
  if (rest === "0") return 0;
  const parts = [...rest.matchAll(/(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g)];
  if (parts.length === 0 || parts.map(([part]) => part).join("") !== rest) return null;
  const nanoseconds = parts.reduce((sum, [, amount, unit = ""]) => sum + Number(amount) * (NANOSECONDS[unit] ?? 0), 0);
  const ms = nanoseconds / 1e6;
  if (ms > MAX_MS) return null;
  return sign === "-" ? -ms : ms;
}

/** Formats seconds as a Go duration: `0s`, `1h0m0s`, `-1s`. */
export function goDuration(seconds: number): string {
  if (seconds < 0) return `-${goDuration(-seconds)}`;
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60), seconds % 60];
  if (h > 0) return `${h}h${m}m${s}s`;
  return m > 0 ? `${m}m${s}s` : `${s}s`;
}
