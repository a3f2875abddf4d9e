import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { httpStatus, StatusError, type StatusName } from "../cloud-c-sm/requests.ts";
import type { Registered } from "../cloud-c-sm/token.ts";
import { bodyOf, startLoopback } from "../loopback.ts";
import { Project } from "./iam.ts";

/** Loses or refuses the next answers to calls whose method and path match. */
export interface Fault {
  /** A part of the call, such as `POST` or `keys`. */
  readonly method: string;
  readonly path: string;
  readonly fault: "drop" | "apply-then-drop" | StatusName;
  count: number;
}

/** Service accounts beside those of the double of secrets, for its token endpoint. */
export interface OtherAccounts {
  find(email: string, kid: string | undefined): Registered | undefined;
  /** A new access token; null for an account of another double. */
  issue(email: string): string | null;
}

/**
 * IAM, service account credentials and resource policies of Google, one project an account: a service's host is the
 * first part of the path, as with CLOUD_C_API_URL. Tests drive it over HTTP: `POST /_double/accounts` opens a project with
 * a root account, `/_double/everything`, `/_double/faults`, `/_double/clear-faults`, `/_double/bindings` and `/_double/account` are about one.
 */
export async function startGoogle() {
  const projects = new Map<string, Project>();
  const tokens = new Map<string, { email: string; expiresAt: number }>();
  const faults = new Map<string, Fault[]>();

  const issue = (email: string, ttlS: number): string => {
    const token = `ya29.c.${randomBytes(32).toString("base64url")}`;
    tokens.set(token, { email, expiresAt: Date.now() + ttlS * 1000 });
    return token;
  };
  const projectOf = (email: string): Project | undefined =>
    [...projects.values()].find(({ accounts }) => accounts.has(email));
  const others: OtherAccounts = {
    find: (email, kid) => projectOf(email)?.registered(email, kid),
    issue: (email) => (projectOf(email) ? issue(email, 3_599) : null),
  };

  async function open(): Promise<unknown> {
    const project = new Project(`acme-${randomBytes(4).toString("hex")}x`, issue);
    projects.set(project.id, project);
    const root = project.add("engine-root");
    const key = await project.addKey(root);
    key.unknown = 0;
    project.put(`//cloudresourcemanager.googleapis.com/projects/${project.id}`, [
      { role: "roles/owner", members: ["user:owner@example.com"] },
      {
        role: "roles/viewer",
        members: ["user:auditor@example.com"],
        condition: { title: "hours", expression: "true" },
      },
    ]);
    return { account: project.id, root: root.email, credentials: key.file };
  }

  async function control(url: URL, body: string): Promise<unknown> {
    if (url.pathname === "/_double/accounts") return open();
    const project = projects.get(url.searchParams.get("account") ?? "");
    if (!project) throw new Error("no such account");
    const given = body === "" ? {} : JSON.parse(body);
    switch (url.pathname) {
      case "/_double/everything":
        return project.everything();
      case "/_double/bindings":
        project.put(given.resource, given.bindings);
        return {};
      case "/_double/account":
        return { email: project.add(given.id).email };
      case "/_double/clear-faults":
        return faults.delete(project.id);
      default:
        faults.set(project.id, [...(faults.get(project.id) ?? []), given]);
        return {};
    }
  }

  async function answer(request: IncomingMessage, url: URL, text: string): Promise<[status: number, body: unknown]> {
    const token = /^Bearer (\S+)$/.exec(request.headers.authorization ?? "")?.[1] ?? "";
    const held = tokens.get(token);
    const project = projectOf(held?.email ?? "");
    if (!held || !project || held.expiresAt <= Date.now()) throw new StatusError("UNAUTHENTICATED", "");
    const [, host = "", path = ""] = /^\/([^/]+)(\/.*)$/.exec(decodeURIComponent(url.pathname)) ?? [];
    const { method = "" } = request;
    const fault = faults
      .get(project.id)
      ?.find((each) => each.count > 0 && each.method === method && path.includes(each.path));
    if (fault) fault.count--;
    if (fault?.fault === "drop") return [0, null];
    if (fault && fault.fault !== "apply-then-drop") throw new StatusError(fault.fault, "");
    const body = text === "" ? undefined : JSON.parse(text);
    // A parameter of every method; Google's clients send it.
    if (url.searchParams.get("alt") === "json") url.searchParams.delete("alt");
    const done = await project.perform({ method, host, path, query: url.searchParams, body, caller: held.email });
    return [fault ? 0 : 200, done];
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://localhost");
    const text = String(await bodyOf(request));
    const send = (status: number, body: unknown) => {
      response.writeHead(status, { "content-type": "application/json; charset=UTF-8" }).end(JSON.stringify(body));
    };
    if (url.pathname.startsWith("/_double/")) return send(200, await control(url, text));
    try {
      const [status, body] = await answer(request, url, text);
      if (status === 0) request.socket.destroy();
      else send(status, body);
    } catch (problem) {
      if (!(problem instanceof StatusError)) throw problem;
      const { status, message, details } = problem;
      const code = httpStatus[status];
      send(code, { error: { code, message, status, ...(details.length > 0 && { details }) } });
    }
  }

  const { url, close } = await startLoopback(serve);
  return {
    url,
    others,
    close,
  };
}
