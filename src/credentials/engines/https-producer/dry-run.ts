import * as z from "zod";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { atPointer, refusedOrigin } from "../../../providers/http-templates.ts";
import { refusedUrl } from "../../../providers/outbound-url.ts";
import type { Captured, Vars } from "./cloud.ts";
import { variables } from "./config.ts";
import { type Call, type Definition, DefinitionBody, identifiersOf, secretsOf, variablesOf } from "./document.ts";
import {
  lifeValues,
  markerValues,
  type Rendered,
  rendered,
  requestOf,
  textOf,
  under,
  type Values,
  varValues,
} from "./render.ts";

/** The requests of a definition with sample values. Nothing is sent, and no secret is read: each is shown as `***`. */

const MASK = "***";
const HOUR_MS = 3_600_000;
const NAMES = ["create", "find", "root.self", "root.create", "root.find"] as const;
type CallName = (typeof NAMES)[number];

/** Body of `POST dry-run`: what it leaves out is that of the configuration. */
export const DryRunBody = z.object({
  url: z.string().max(2_048).optional(),
  vars: variables().optional(),
  producer: DefinitionBody.optional(),
  /** A stored role, for its variables. */
  role: z.string().max(256).optional(),
  /** Answers of the provider by call, which the pointers of the call are tried on. */
  answers: z.partialRecord(z.enum(NAMES), z.unknown()).optional(),
});

/** The stored configuration as its view has it. */
interface Stored {
  readonly url?: string;
  readonly vars?: Vars;
  readonly producer?: Definition | null;
  readonly secret_names?: readonly string[];
}

interface DryCall {
  readonly call: string;
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

const samples = (names: readonly string[]): Captured =>
  Object.fromEntries(names.map((name) => [name, `sample-${name}`]));

/** The pointers of a call that an answer does not have. */
function missingIn(at: string, call: Call, answer: unknown): string[] {
  const own = (value: unknown): string[] => {
    const pointers = [
      ...Object.entries("capture" in call ? call.capture : {}).map(([name, pointer]) => [`capture.${name}`, pointer]),
      ...Object.keys("match" in call ? call.match : {}).map((pointer) => ["match", pointer]),
    ];
    return pointers
      .filter(([, pointer = ""]) => !["string", "number", "boolean"].includes(typeof atPointer(value, pointer)))
      .map(([name, pointer]) => `${at}.${name}: the answer has no value at ${pointer}`);
  };
  if (!("items" in call) || call.items === undefined) return own(answer);
  const items = call.items === "" ? answer : atPointer(answer, call.items);
  if (!Array.isArray(items)) return [`${at}.items: the answer has no list at ${call.items || "its root"}`];
  return [...new Set(items.flatMap(own))];
}

/** @param role variables of the role, which come before those of the configuration */
export function dryRun(stored: Stored, body: z.infer<typeof DryRunBody>, role: Vars): Result<Record<string, unknown>> {
  const { url = "", producer: definition, secret_names: secrets = [] } = { ...stored, ...body };
  if (url === "") return refuse("invalid", "url: required");
  const refused = refusedOrigin(`${url}/`) ?? refusedUrl(url);
  if (refused !== null) return refuse("invalid", `url: ${refused}`);
  if (!definition) return refuse("invalid", "producer: required");
  const { answers = {} } = body;
  const own: Vars = { ...stored.vars, ...body.vars };
  const ofRole: Vars = { ...own, ...role };
  const used = secretsOf(definition);
  const problems = used.filter((name) => !secrets.includes(name)).map((name) => `secrets: no value for ${name}`);
  const calls: DryCall[] = [];
  const common: Values = {
    ...under("secrets", Object.fromEntries(used.map((name) => [name, MASK]))),
    ...markerValues(`sp-${"0".repeat(32)}`),
    ...lifeValues(Date.now() + HOUR_MS, Date.now()),
  };

  /** All variables of a part; a sample for one without a value. */
  const varsFor = (part: object, vars: Vars): Values => varValues({ ...(samples(variablesOf(part)) as Vars), ...vars });

  function show(at: string, call: Call, vars: Vars, values: Values, isNew = false): void {
    for (const name of variablesOf(call)) if (!(name in vars)) problems.push(`${at}: no value for {{vars.${name}}}`);
    for (const name of identifiersOf(call)) {
      if (/\W/.test(vars[name] ?? "")) problems.push(`${at}: {{vars.${name}.sql}} is no identifier`);
    }
    if (at in answers) problems.push(...missingIn(at, call, answers[at as CallName]));
    const all = { ...varsFor({ call, headers: definition?.headers }, vars), ...common, ...values };
    const request = rendered(() => requestOf(url, call, all, { common: isNew ? null : definition?.headers }));
    if (!request.ok) return void problems.push(`${at}: ${request.message}`);
    const authorization = definition?.auth && !isNew ? { authorization: `Bearer ${MASK}` } : {};
    const headers = { ...request.value.headers, ...authorization };
    calls.push({ call: at, method: call.method, headers, ...withoutHeaders(request.value) });
  }

  const { create, find, revoke, renew, verify, auth, lease, root } = definition;
  const random = (names: object = {}): Values => under("generated", samples(Object.keys(names)));
  if (auth?.type === "oauth2") {
    const form = { grant_type: "client_credentials", ...(auth.scope && { scope: auth.scope }) };
    show("auth", { method: "POST", path: auth.path, form }, own, {}, true);
  }
  const made = samples(Object.keys(create.capture));
  const results = { ...varsFor(lease, ofRole), ...common, ...random(definition.generate), ...made };
  const data = Object.fromEntries(Object.entries(lease.data).map(([name, text]) => [name, textOf(text, results)]));
  show("create", create, ofRole, random(definition.generate));
  if (find) show("find", find, ofRole, {});
  if (verify) show("verify", verify, own, under("data", data), true);
  if (renew) show("renew", renew, ofRole, made);
  if (revoke) show("revoke", revoke, ofRole, made);
  if (root?.self) show("root.self", root.self, own, {});
  if (root) {
    show("root.create", root.create, own, random(root.generate));
    show("root.find", root.find, own, {});
    show("root.revoke", root.revoke, own, samples(Object.keys(root.create.capture)));
  }
  return ok({ calls, lease: { data }, problems: [...new Set(problems)] });
}

const withoutHeaders = ({ headers: _, ...request }: Rendered): Omit<Rendered, "headers"> => request;
