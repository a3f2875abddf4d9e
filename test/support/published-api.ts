import { Ajv2020 } from "ajv/dist/2020.js";
import { vi } from "vitest";

/**
 * Judges calls of an adapter and answers of its double by the facts of a provider's published document: paths,
 * parameters, bodies and statuses.
 */

interface PublishedOperation {
  /** Names of query parameters. */
  readonly query?: readonly string[];
  /** The JSON schema of the request's body; absent for none. */
  readonly request?: object;
  /** The JSON schema of each answer by status, `default` for other refusals; null for one without a body. */
  readonly answers: Readonly<Record<string, object | null>>;
}

export interface PublishedApi {
  /** The path before that of each operation, such as `/v1`. */
  readonly base: string;
  /** By method and path, such as `GET /things/{id}`. */
  readonly operations: Readonly<Record<string, PublishedOperation>>;
}

interface Exchange {
  readonly method: string;
  readonly url: URL;
  readonly body: unknown;
  readonly status: number;
  readonly text: string;
}

const ajv = new Ajv2020({ strict: false, validateFormats: false });

/** The faults of an exchange by the document; empty when it is valid. */
function faultsOf({ base, operations }: PublishedApi, { method, url, body, status, text }: Exchange): string[] {
  const path = url.pathname.startsWith(`${base}/`) ? url.pathname.slice(base.length) : "";
  const matches = (template: string) => new RegExp(`^${template.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(path);
  const name = Object.keys(operations).find((one) => {
    const [verb, template = ""] = one.split(" ");
    return verb === method && matches(template);
  });
  const operation = operations[name ?? ""];
  if (operation === undefined) return [`${method} ${url.pathname} is not documented`];
  const faults = [...url.searchParams.keys()]
    .filter((parameter) => !operation.query?.includes(parameter))
    .map((parameter) => `${name} has no parameter ${parameter}`);
  const check = (schema: object | undefined, value: unknown, what: string) => {
    if (schema === undefined ? value !== undefined : !ajv.validate(schema, value)) {
      faults.push(`${name} ${what}: ${schema === undefined ? "has no body" : ajv.errorsText()}`);
    }
  };
  check(operation.request, body, "request");
  const { answers } = operation;
  const answer = answers[status in answers || status < 400 ? status : "default"];
  if (answer === undefined) faults.push(`${name} is not answered with ${status}`);
  else check(answer ?? undefined, text === "" ? undefined : JSON.parse(text), `answer ${status}`);
  return faults;
}

/**
 * Watches each `fetch` from now on. `faults` and `seen` (method and status) grow with each.
 * @param isJudged whether an address is one of the API; others pass
 */
export function judgeExchanges(api: PublishedApi, isJudged: (url: URL) => boolean = () => true) {
  const faults: string[] = [];
  const seen = new Set<string>();
  const fetched = globalThis.fetch;
  const spy = vi.spyOn(globalThis, "fetch").mockImplementation(async (url, init) => {
    const response = await fetched(url, init);
    if (!isJudged(new URL(String(url)))) return response;
    const method = init?.method ?? "GET";
    const isForm = new Headers(init?.headers).get("content-type")?.includes("x-www-form-urlencoded");
    const bodyOf = (text: string) => (isForm ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text));
    const body = init?.body === undefined ? undefined : bodyOf(String(init.body));
    seen.add(`${method} ${response.status}`);
    const text = await response.clone().text();
    faults.push(...faultsOf(api, { method, url: new URL(String(url)), body, status: response.status, text }));
    return response;
  });
  return { faults, seen, stop: () => spy.mockRestore() };
}
