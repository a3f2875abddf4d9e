import type { Checker, Exchange } from "./checker.ts";

interface Example {
  request?: unknown;
  readonly answers: Record<string, unknown>;
}

const MAX_LENGTH = 6_000;

/** Fields whose value is a secret, though only of a test; and what an example shows instead. */
const SECRETS: ReadonlySet<string> = new Set([
  "client_token",
  "client_secret",
  "token",
  "private_key",
  "access_key_id",
  "secret_access_key",
  "SecretID",
  "Token",
  "BootstrapSecret",
]);
const HIDDEN = "…";

/** The first success of each operation, as an example of it. */
export class Examples {
  readonly #kept = new Map<string, Example>();

  get isEmpty(): boolean {
    return this.#kept.size === 0;
  }

  keep(checker: Checker, { method, path, sent, status, type, text }: Exchange): void {
    const id = checker.operationOf(method, path)?.operationId;
    if (id === undefined || status >= 300 || text.length > MAX_LENGTH) return;
    const example: Example = this.#kept.get(id) ?? { answers: {} };
    if (String(status) in example.answers) return;
    const sentValue = /^\s*[[{]/.test(sent) ? parsed(sent) : undefined;
    if (sentValue !== undefined) example.request ??= sentValue;
    if (type?.startsWith("application/json")) {
      const value = parsed(text) ?? parsed(text.split("\n").find((line) => line.includes('"Topic"')) ?? "");
      if (value !== undefined && id !== "readDocument") example.answers[String(status)] = value;
    }
    this.#kept.set(id, example);
  }

  text(): string {
    const sorted = [...this.#kept].filter(
      ([, { request, answers }]) => request !== undefined || Object.keys(answers).length > 0,
    );
    const lines = sorted
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([id, example]) => `${JSON.stringify(id)}: ${JSON.stringify(hidden(example))}`);
    return `{\n${lines.join(",\n")}\n}\n`;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function hidden(value: unknown, name = ""): unknown {
  if (typeof value === "string")
    return SECRETS.has(name) && !/^\*?$|^\*{5}$/.test(value) ? HIDDEN : value.replace(/hvs\.\w+/g, `hvs.${HIDDEN}`);
  if (Array.isArray(value)) return value.map((each) => hidden(each));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, hidden(item, key)]));
}
