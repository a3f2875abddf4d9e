/** A parsed version; build metadata is dropped, since it does not take part in comparisons. */
interface Version {
  readonly numbers: readonly number[];
  readonly prerelease: readonly string[];
}

/** `loose` accepts `v1.2` and `1.2-rc1`; `semver` accepts SemVer 2.0.0 only. */
type VersionKind = "loose" | "semver";

const LOOSE =
  /^v?(\d{1,15}(?:\.\d{1,15}){0,7})(?:-([0-9A-Za-z.~-]+)|([A-Za-z][0-9A-Za-z.~-]*))?(?:\+[0-9A-Za-z.~-]+)?$/;
const SEMVER =
  /^((?:0|[1-9]\d{0,14})(?:\.(?:0|[1-9]\d{0,14})){2})(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?()(?:\+[0-9A-Za-z.-]+)?$/;

const MAX_TEXT = 256;
const MAX_RULES = 16;

function parseVersion(text: string, kind: VersionKind): Version | null {
  if (text.length > MAX_TEXT) return null;
  const [, numbers, dashed, joined] = (kind === "semver" ? SEMVER : LOOSE).exec(text) ?? [];
  if (numbers === undefined) return null;
  const prerelease = dashed || joined || "";
  return { numbers: numbers.split(".").map(Number), prerelease: prerelease === "" ? [] : prerelease.split(".") };
}

function compare(a: Version, b: Version): number {
  const length = Math.max(a.numbers.length, b.numbers.length);
  for (let at = 0; at < length; at++) {
    const difference = (a.numbers[at] ?? 0) - (b.numbers[at] ?? 0);
    if (difference !== 0) return difference;
  }
  // A prerelease precedes its release.
  if (a.prerelease.length === 0 || b.prerelease.length === 0) return b.prerelease.length - a.prerelease.length;
  for (let at = 0; at < Math.max(a.prerelease.length, b.prerelease.length); at++) {
    const difference = comparePart(a.prerelease[at], b.prerelease[at]);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Fewer identifiers precede more, numbers precede words. */
function comparePart(a: string | undefined, b: string | undefined): number {
  if (a === b) return 0;
  if (a === undefined) return -1;
  if (b === undefined) return 1;
  const [aIsNumber, bIsNumber] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (aIsNumber && bIsNumber) return Number(a) - Number(b);
  if (aIsNumber !== bIsNumber) return aIsNumber ? -1 : 1;
  return a < b ? -1 : 1;
}

type Holds = (version: Version) => boolean;

const OPERATORS: Readonly<Record<string, (order: number) => boolean>> = {
  "": (order) => order === 0,
  "=": (order) => order === 0,
  "!=": (order) => order !== 0,
  ">": (order) => order > 0,
  ">=": (order) => order >= 0,
  "<": (order) => order < 0,
  "<=": (order) => order <= 0,
};

function ruleOf(text: string, kind: VersionKind): Holds | null {
  const [, operator = "", written = ""] = /^(=|!=|>=|<=|>|<|~>)?\s*(\S+)$/.exec(text.trim()) ?? [];
  const wanted = parseVersion(written, kind);
  if (!wanted) return null;
  // SemVer orders prereleases with releases; loose rules match prereleases only when they name one.
  const comparable = (version: Version) =>
    kind === "semver" || version.prerelease.length === 0 || wanted.prerelease.length > 0;
  if (operator === "~>") {
    if (kind === "semver") return null;
    const fixed = wanted.numbers.slice(0, Math.max(1, wanted.numbers.length - 1));
    return (version) =>
      comparable(version) &&
      compare(version, wanted) >= 0 &&
      fixed.every((number, at) => number === (version.numbers[at] ?? 0));
  }
  const holds = OPERATORS[operator];
  return holds ? (version) => comparable(version) && holds(compare(version, wanted)) : null;
}

/**
 * Parses constraints such as `>= 1.2, < 2` or `~> 1.4`; a version must satisfy all of them.
 * @returns the predicate over version texts; null when the text is invalid
 */
export function versionRules(text: string, kind: VersionKind): ((version: string) => boolean) | null {
  if (text.length > MAX_TEXT) return null;
  const rules = text.split(",", MAX_RULES + 1).map((rule) => ruleOf(rule, kind));
  if (rules.length > MAX_RULES || rules.some((rule) => rule === null)) return null;
  return (written) => {
    const version = parseVersion(written.trim(), kind);
    return version !== null && rules.every((rule) => rule?.(version));
  };
}
