import { ServiceError } from "../cloud-a-sm/parameters.ts";
import { stsNames } from "../cloud-a-sts/sts.ts";

/** The query protocol: parameters as IAM and STS read them, answers and errors as they write them. */

/** The rule of a parameter. A list has the rules of its members' fields; "" is the field of a plain member. */
export type Rule = RegExp | { readonly members: Readonly<Record<string, RegExp>>; readonly most: number };

export interface ActionRules {
  readonly required: readonly string[];
  readonly rules: Readonly<Record<string, Rule>>;
}

export class Parameters {
  readonly #values: ReadonlyMap<string, string>;

  constructor(values: ReadonlyMap<string, string>) {
    this.#values = values;
  }

  text(name: string): string {
    return this.#values.get(name) ?? "";
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  /** A field of the members of a list, in order. */
  list(name: string, field: string): string[] {
    const found: string[] = [];
    for (let at = 1; ; at++) {
      const value = this.#values.get(`${name}.member.${at}.${field}`);
      if (value === undefined) return found;
      found.push(value);
    }
  }

  tags(): Record<string, string> {
    const values = this.list("Tags", "Value");
    return Object.fromEntries(this.list("Tags", "Key").map((key, at) => [key, values[at] ?? ""]));
  }
}

const invalid = (message: string) => new ServiceError("ValidationError", message);

/** Reads a form by the rules of its action. Parameters that are unknown, repeated or out of order are refused. */
export function readParameters(form: URLSearchParams, { required, rules }: ActionRules): Parameters {
  const given = [...form].filter(([name]) => name !== "Action" && name !== "Version");
  const values = new Map(given);
  if (values.size !== given.length) throw invalid("A parameter is given twice");
  const counts = new Map<string, Set<number>>();
  for (const [name, value] of given) {
    const [base = "", word, index = "", field = "", ...more] = name.split(".");
    const rule = Object.hasOwn(rules, base) ? rules[base] : undefined;
    const isMember = word === "member" && /^[1-9]\d*$/.test(index) && more.length === 0;
    const pattern =
      rule instanceof RegExp ? (name === base ? rule : undefined) : isMember ? rule?.members[field] : undefined;
    if (!pattern) throw invalid(`Unknown parameter ${name}`);
    if (!pattern.test(value))
      throw invalid(`1 validation error detected: Value at '${name}' failed to satisfy constraint`);
    if (!(rule instanceof RegExp)) counts.set(base, (counts.get(base) ?? new Set()).add(Number(index)));
  }
  for (const [base, indices] of counts) {
    const rule = rules[base];
    if (rule === undefined || rule instanceof RegExp) continue;
    if (indices.size > rule.most || Math.max(...indices) !== indices.size) {
      throw invalid(`1 validation error detected: '${base}' has too many members, or gaps between them`);
    }
    for (const index of indices) {
      for (const field of Object.keys(rule.members)) {
        if (!values.has(`${base}.member.${index}.${field}`)) throw invalid(`${base}.member.${index} lacks ${field}`);
      }
    }
  }
  const missing = required.find((name) => !values.has(name));
  if (missing !== undefined) throw invalid(`Value null at '${missing}' failed to satisfy constraint`);
  return new Parameters(values);
}

/** An answer: texts, lists of members, and elements in elements. */
export type Node = string | number | boolean | null | readonly Node[] | { readonly [name: string]: Node };

const NAMESPACES = {
  iam: "https://iam.amazonaws.com/doc/2010-05-08/",
  sts: "https://sts.amazonaws.com/doc/2011-06-15/",
} as const;

export type Service = keyof typeof NAMESPACES;

/** The answer of an action; null: it has no result element. */
export function answerXml(service: Service, action: string, result: Node, requestId: string): string {
  const body = result === null ? "" : `<${action}Result>${written(result)}</${action}Result>`;
  const metadata = `<ResponseMetadata><RequestId>${requestId}</RequestId></ResponseMetadata>`;
  return `<${action}Response xmlns="${NAMESPACES[service]}">\n  ${body}\n  ${metadata}\n</${action}Response>\n`;
}

export function errorXml(service: Service, type: string, message: string, requestId: string): string {
  const code = escaped(stsNames[type] ?? type);
  const error = `<Error><Type>Sender</Type><Code>${code}</Code><Message>${escaped(message)}</Message></Error>`;
  return `<ErrorResponse xmlns="${NAMESPACES[service]}">\n  ${error}\n  <RequestId>${requestId}</RequestId>\n</ErrorResponse>\n`;
}

function written(node: Node): string {
  if (node === null) return "";
  if (Array.isArray(node)) return node.map((each) => `<member>${written(each as Node)}</member>`).join("\n");
  if (typeof node !== "object") return escaped(String(node));
  return Object.entries(node as { readonly [name: string]: Node })
    .map(([name, value]) => (value === null ? "" : `<${name}>${written(value)}</${name}>`))
    .join("\n");
}

/** Escapes more than is needed, so that a reader without entities fails. */
const escaped = (text: string): string =>
  text.replace(/[<>&"'+=/]/g, (one) => (one === "&" ? "&amp;" : one === "+" ? "&#x2B;" : `&#${one.charCodeAt(0)};`));
