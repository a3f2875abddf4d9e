import { type AccountDouble, DoubleAccount, fieldsOf, Refusal, type Reply, startTokenDouble } from "../http-double.ts";
import type { Received } from "../loopback.ts";

/** Variables of contexts and projects by CircleCI's API v2, stricter in unknown fields. */

export interface Variable {
  value: string;
  createdAt: string;
  updatedAt: string;
}

export class ContextAccount extends DoubleAccount {
  readonly token = `CCIPAT_${crypto.randomUUID()}`;
  readonly contextId = crypto.randomUUID();
  readonly project = "gh/acme/web";
  readonly context = new Map<string, Variable>();
  readonly ofProject = new Map<string, Variable>();
  pageSize = 20;
  #now = Date.parse("2026-01-01T00:00:00Z");

  write(variables: Map<string, Variable>, name: string, value: string): Variable {
    this.#now += 1000;
    const now = new Date(this.#now).toISOString();
    const written = { value, createdAt: variables.get(name)?.createdAt ?? now, updatedAt: now };
    variables.set(name, written);
    return written;
  }
}

const refuse = (status: number, message: string) => new Refusal(status, { message });

function checkName(name: string): void {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,299}$/.test(name)) throw refuse(400, "The environment variable name is invalid.");
}

function checkValue(value: unknown): string {
  if (typeof value !== "string" || value.length > 32_768) throw refuse(400, "The value is invalid.");
  return value;
}

function performContext(request: Received, account: ContextAccount, name: string | undefined): Reply {
  const { context } = account;
  const shown = (variable: string, { value, createdAt, updatedAt }: Variable) => ({
    variable,
    truncated_value: value.slice(-4),
    created_at: createdAt,
    updated_at: updatedAt,
    context_id: account.contextId,
  });
  if (name === undefined) {
    if (request.method !== "GET") throw refuse(405, "Method not allowed.");
    const from = Number(request.url.searchParams.get("page-token") ?? 0);
    const all = [...context].map(([variable, one]) => shown(variable, one));
    const next = from + account.pageSize;
    const items = all.slice(from, next);
    return { status: 200, body: { items, next_page_token: next < all.length ? String(next) : null } };
  }
  checkName(name);
  if (request.method === "PUT") {
    const { value } = fieldsOf(request, ["value"], (message) => refuse(400, message));
    if (!context.has(name) && context.size >= 100) throw refuse(400, "The context has too many environment variables.");
    return { status: 200, body: shown(name, account.write(context, name, checkValue(value))) };
  }
  if (request.method !== "DELETE") throw refuse(405, "Method not allowed.");
  if (!context.delete(name)) throw refuse(404, "Environment variable not found.");
  return { status: 200, body: { message: "Environment variable deleted." } };
}

function performProject(request: Received, account: ContextAccount, name: string | undefined): Reply {
  const { ofProject } = account;
  const shown = (of: string, { value, createdAt }: Variable) => ({
    name: of,
    value: `xxxx${value.slice(-4)}`,
    "created-at": createdAt,
  });
  if (name === undefined && request.method === "GET") {
    return { status: 200, body: { items: [...ofProject].map(([of, one]) => shown(of, one)), next_page_token: null } };
  }
  if (name === undefined && request.method === "POST") {
    const given = fieldsOf(request, ["name", "value"], (message) => refuse(400, message));
    checkName(String(given["name"]));
    if (given["value"] === "") throw refuse(400, "The value is empty.");
    const written = account.write(ofProject, String(given["name"]), checkValue(given["value"]));
    return { status: 201, body: shown(String(given["name"]), written) };
  }
  const found = ofProject.get(name ?? "");
  if (found === undefined || name === undefined) throw refuse(404, "Environment variable not found.");
  if (request.method === "GET") return { status: 200, body: shown(name, found) };
  if (request.method !== "DELETE") throw refuse(405, "Method not allowed.");
  ofProject.delete(name);
  return { status: 200, body: { message: "Environment variable deleted." } };
}

function perform(request: Received, account: ContextAccount): Reply {
  const { pathname } = request.url;
  const context = /^\/api\/v2\/context\/([^/]+)\/environment-variable(?:\/([^/]+))?$/.exec(pathname);
  if (context) {
    if (context[1] !== account.contextId) throw refuse(404, "Context not found.");
    return performContext(request, account, context[2]);
  }
  const project = /^\/api\/v2\/project\/([^/]+\/[^/]+\/[^/]+)\/envvar(?:\/([^/]+))?$/.exec(pathname);
  if (project?.[1] !== account.project) throw refuse(404, "Project not found.");
  return performProject(request, account, project[2]);
}

export const startCiContext = (): Promise<AccountDouble<ContextAccount>> =>
  startTokenDouble<ContextAccount>({
    newAccount: () => new ContextAccount(),
    tokenOf: (headers) => headers["circle-token"] ?? "",
    unauthorized: refuse(401, "You must log in first."),
    perform,
    refusals: {
      throttled: { status: 429, body: { message: "Too many requests." }, headers: { "retry-after": "1" } },
      unavailable: { status: 503, body: "" },
      forbidden: refuse(403, "Permission denied.").reply,
    },
  });
