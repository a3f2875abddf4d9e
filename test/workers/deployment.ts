import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { handle } from "../../src/routes/server/handle.ts";

interface Asked {
  readonly method?: string;
  /** By default the root token. */
  readonly token?: string | null;
  /** The caller's address as the platform reports it. */
  readonly from?: string;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  /** Lets the answer's body go: it may have no end. */
  readonly unread?: boolean;
  /** Does not wait for work after the response. */
  readonly leaves?: boolean;
}

/** Requests to a deployment whose Worker has other bindings and settings; its objects have those of the tests. */
export function deployment(own: { readonly [Name in keyof Env]?: Env[Name] | undefined } & Record<string, unknown>) {
  const bindings = { ...env, ...own } as Env;
  return async (path: string, { method = "GET", token = "root", from, body, headers, unread, leaves }: Asked = {}) => {
    const all = new Headers(headers);
    if (from !== undefined) all.set("CF-Connecting-IP", from);
    if (token !== null) all.set("X-Orch-Token", token);
    const exec = createExecutionContext();
    const init = { method, headers: all, ...(body !== undefined && { body: JSON.stringify(body) }) };
    const response = await handle(new Request(`https://x${path}`, init), bindings, exec);
    const answer = { status: response.status, headers: response.headers, text: unread ? "" : await response.text() };
    if (unread) await response.body?.cancel();
    if (!leaves) await waitOnExecutionContext(exec);
    return answer;
  };
}
