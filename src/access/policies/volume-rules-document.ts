import { ENFORCEMENTS, type VolumeRule } from "../../contracts/policies.ts";
import { readPattern } from "../../lib/bexpr/pattern.ts";
import { quote } from "../../lib/hcl.ts";
import { type Block, fieldsOf, memberOf, refuse, text, texts, title } from "./policy-blocks.ts";

/** Parses the `volume_rule` blocks of a policy document. */

const ASKS = ["plugins", "name_pattern", "max_capacity", "node_pools"] as const;
const KEYS = ["namespaces", ...ASKS, "enforcement"] as const;
type Key = (typeof KEYS)[number];

const RULE_NAME = /^[a-zA-Z0-9_-]{1,128}$/;
const MAX_WORDS = 100;

/** Format of the words in each list. */
const WORDS = {
  namespaces: { shape: /^[a-zA-Z0-9*-]{1,128}$/, rule: "1 to 128 letters, digits, - or *" },
  plugins: { shape: /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, rule: "1 to 128 letters, digits, ., _ or -" },
  node_pools: { shape: /^[a-zA-Z0-9_-]{1,128}$/, rule: "1 to 128 letters, digits, - or _" },
} as const;

/** @throws Refusal */
export function readVolumeRules(blocks: readonly Block[]): VolumeRule[] {
  const rules = new Map<string, VolumeRule>();
  for (const block of blocks) {
    const rule = readRule(block);
    if (rules.has(rule.name)) refuse(`Invalid or duplicate policy keys: ${title(block)} stands twice`, block);
    rules.set(rule.name, rule);
  }
  return [...rules.values()];
}

function readRule(block: Block): VolumeRule {
  fieldsOf(block, KEYS);
  const name = block.label ?? "";
  if (!RULE_NAME.test(name))
    refuse(`Invalid volume_rule name: ${quote(name)} must be 1 to 128 letters, digits, - or _`, block);
  if (!ASKS.some((key) => memberOf(block, key)))
    refuse(`Invalid policy: ${title(block)} asks for nothing: give it one of ${ASKS.join(", ")}`, block);
  const enforcement = memberOf(block, "enforcement");
  const level = ENFORCEMENTS.find((word) => enforcement && text(enforcement) === word);
  if (!level) fault(block, "enforcement", `must be one of ${ENFORCEMENTS.join(", ")}`);
  const namespaces = readWords(block, "namespaces");
  const plugins = readWords(block, "plugins");
  const nodePools = readWords(block, "node_pools");
  const namePattern = readNamePattern(block);
  const maxCapacity = readCapacity(block);
  return {
    name,
    enforcement: level,
    ...(namespaces && { namespaces }),
    ...(plugins && { plugins }),
    ...(namePattern !== undefined && { namePattern }),
    ...(maxCapacity !== undefined && { maxCapacity }),
    ...(nodePools && { nodePools }),
  };
}

function readWords(block: Block, key: keyof typeof WORDS): string[] | undefined {
  const member = memberOf(block, key);
  if (!member) return undefined;
  const words = texts(member);
  if (words.length === 0 || words.length > MAX_WORDS) fault(block, key, `must have 1 to ${MAX_WORDS} entries`);
  const { shape, rule } = WORDS[key];
  const bad = words.find((word) => !shape.test(word));
  if (bad !== undefined) fault(block, key, `${quote(bad)} must be ${rule}`);
  return [...new Set(words)];
}

function readNamePattern(block: Block): string | undefined {
  const member = memberOf(block, "name_pattern");
  if (!member) return undefined;
  const written = text(member);
  if (written === "") fault(block, "name_pattern", "must not be empty");
  const pattern = readPattern(written);
  if (typeof pattern === "string") fault(block, "name_pattern", `is no regular expression: ${pattern}`);
  return written;
}

const UNITS = ["", "B", "KB", "MB", "GB", "TB", "PB", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;
const POWERS = ["K", "M", "G", "T", "P"];

/** Bytes as a number, or a text such as `10GiB` or `500 MB`. */
function readCapacity(block: Block): number | undefined {
  const member = memberOf(block, "max_capacity");
  if (!member) return undefined;
  const written = typeof member.value === "number" ? String(member.value) : text(member);
  const [, digits = "", unit = ""] = /^(\d{1,16}) ?([KMGTP]?i?B?)$/.exec(written) ?? [];
  const bytes = UNITS.some((each) => each === unit) ? Number(digits) * unitOf(unit) : 0;
  if (bytes < 1 || !Number.isSafeInteger(bytes))
    fault(block, "max_capacity", "must be a number of bytes from 1 to 2^53 - 1, or a text such as 10GiB");
  return bytes;
}

const unitOf = (unit: string): number => (unit.includes("i") ? 1024 : 1000) ** (POWERS.indexOf(unit.slice(0, 1)) + 1);

function fault(block: Block, key: Key, message: string): never {
  return refuse(`Invalid policy: ${key} of ${title(block)}: ${message}`, memberOf(block, key) ?? block);
}
