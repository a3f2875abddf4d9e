import type { PathRule } from "../../contracts/policies.ts";

/**
 * Templates in the paths of policies, such as `secret/data/{{identity.entity.name}}/*`
 * (https://developer.hashicorp.com/vault/docs/concepts/policies#templated-policies).
 *
 * A value is inserted as text: it never acts as a wildcard, and a name never spans segments. A rule without a usable
 * value does not apply; one that denies takes any value, because a wider rule only denies more.
 */

/** The entity of a token, with the values that templates can name. */
export interface TemplateSubject {
  readonly id: string;
  readonly name: string;
  readonly metadata: Metadata;
  readonly aliases: readonly {
    readonly accessor: string;
    readonly id: string;
    readonly name: string;
    readonly metadata: Metadata;
    readonly customMetadata: Metadata;
  }[];
  /** The entity's groups, direct and inherited. */
  readonly groups: readonly { readonly id: string; readonly name: string; readonly metadata: Metadata }[];
}

type Metadata = Readonly<Record<string, string>>;

/** A value of a template. A name is one segment of a path; metadata may hold several. */
interface Value {
  readonly text: string | undefined;
  readonly isName: boolean;
}

type Selector = (subject: TemplateSubject) => Value;

const OPEN = "{{";
const CLOSE = "}}";

export const isTemplated = (path: string): boolean => path.includes(OPEN);

/** Why a path cannot be a template, for its author; null if it can. */
export function templateProblem(path: string): string | null {
  const pieces = piecesOf(path);
  if (pieces === null) return "unbalanced templating characters";
  const unknown = pieces.find(({ selector }) => selector !== undefined && selectorOf(selector) === null);
  return unknown ? `a template cannot name ${JSON.stringify(unknown.selector?.slice(0, 100))}` : null;
}

/**
 * The rule of a templated path for one entity; null when the rule does not apply to it.
 * @param subject null for a token without an entity, to which no templated rule applies
 */
export function resolveTemplate(rule: PathRule, subject: TemplateSubject | null): PathRule | null {
  const pieces = piecesOf(rule.path);
  if (subject === null || pieces === null) return null;
  const denies = rule.capabilities.includes("deny");
  let path = "";
  for (const { selector, literal } of pieces) {
    if (selector !== undefined) {
      const value = selectorOf(selector)?.(subject);
      if (!value?.text || (!denies && !isUsable(value))) return null;
      path += value.text.replaceAll("+", LITERAL_PLUS);
    }
    path += literal;
  }
  const segments = path.replace(/\*$/, "").split("/");
  const wildcard = segments.indexOf(LITERAL_PLUS);
  // A segment `+` can only be a wildcard. A rule that denies then ends there, because one with a `+` has less weight.
  if (wildcard >= 0 && !denies) return null;
  if (wildcard >= 0) path = [...segments.slice(0, wildcard), "*"].join("/");
  return { ...rule, path: path.replaceAll(LITERAL_PLUS, "+") };
}

/** Stands for the `+` of a value until the path is complete. No path of a request holds it. */
const LITERAL_PLUS = "\0";

function isUsable({ text = "", isName }: Value): boolean {
  if (/[*\0]/.test(text)) return false;
  const segments = text.split("/");
  return (!isName || segments.length === 1) && segments.every((segment) => !["", ".", ".."].includes(segment));
}

/** A path in pieces: each a selector, if any, and the text after it. Null for unbalanced braces. */
function piecesOf(path: string): { selector?: string; literal: string }[] | null {
  const [start = "", ...rest] = path.split(OPEN);
  if (start.includes(CLOSE)) return null;
  const pieces: { selector?: string; literal: string }[] = [{ literal: start }];
  for (const piece of rest) {
    const [selector = "", literal, ...more] = piece.split(CLOSE);
    if (literal === undefined || more.length > 0) return null;
    pieces.push({ selector: selector.trim(), literal });
  }
  return pieces;
}

const ENTITY = /^identity\.entity\.(id|name|metadata)(?:\.(.+))?$/;
const ALIAS = /^identity\.entity\.aliases\.([^.]+)\.(id|name|metadata|custom_metadata)(?:\.(.+))?$/;
const GROUP = /^identity\.groups\.(ids|names)\.([^.]+)\.(id|name|metadata)(?:\.(.+))?$/;

/** The value that a selector names; null for a selector that does not exist. */
function selectorOf(selector: string): Selector | null {
  const entity = ENTITY.exec(selector);
  if (entity) return fieldOf((subject) => subject, entity[1], entity[2]);
  const alias = ALIAS.exec(selector);
  if (alias) {
    const [, accessor, field, key] = alias;
    return fieldOf(({ aliases }) => aliases.find((one) => one.accessor === accessor), field, key);
  }
  const group = GROUP.exec(selector);
  if (!group) return null;
  const [, by, named, field, key] = group;
  return fieldOf(({ groups }) => groups.find(({ id, name }) => (by === "ids" ? id : name) === named), field, key);
}

interface Described {
  readonly id: string;
  readonly name: string;
  readonly metadata: Metadata;
  readonly customMetadata?: Metadata;
}

/** @param key of metadata; other fields have none */
function fieldOf(
  find: (subject: TemplateSubject) => Described | undefined,
  field: string | undefined,
  key: string | undefined,
): Selector | null {
  if (field === "id" || field === "name") {
    return key === undefined ? (subject) => ({ text: find(subject)?.[field], isName: true }) : null;
  }
  if (key === undefined) return null;
  return (subject) => {
    const found = find(subject);
    const metadata = field === "metadata" ? found?.metadata : found?.customMetadata;
    return { text: metadata && Object.hasOwn(metadata, key) ? metadata[key] : undefined, isName: false };
  };
}
