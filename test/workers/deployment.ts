import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Collector } from "../../src/platform/observability/audit/collector.ts";
import { sinksOf } from "../../src/platform/observability/audit/sinks.ts";
import { handle } from "../../src/routes/handle.ts";

interface Asked {
  readonly method?: string;
  /** By default the root token. */
  readonly token?: string | null;
  /** The caller's address as the platform reports it. */
  readonly from?: string;
  /** The caller's place as the platform reports it. */
  readonly cf?: object;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  /** Lets the answer's body go: it may have no end. */
  readonly unread?: boolean;
  /** Does not wait for work after the response. */
  readonly leaves?: boolean;
}

/** A namespace of collectors for sinks that only the tests can reach. It writes all lines at once. */
function collectors(bindings: () => Env): Env["AUDIT_COLLECTOR"] {
  const collector = new Collector(
    () => sinksOf(bindings()),
    () => 0,
  );
  const stub = { write: (lines: readonly string[]) => collector.write(lines, true) };
  return { getByName: () => stub } as unknown as Env["AUDIT_COLLECTOR"];
}

/**
 * Requests to a deployment whose Worker has other bindings and settings; its objects have those of the tests, but for
 * the collector of the audit log.
 */
export function deployment(own: { readonly [Name in keyof Env]?: Env[Name] | undefined } & Record<string, unknown>) {
  const bindings: Env = { ...env, AUDIT_COLLECTOR: collectors(() => bindings), ...own } as Env;
  return async (
    path: string,
    { method = "GET", token = "root", from, cf, body, headers, unread, leaves }: Asked = {},
  ) => {
    const all = new Headers(headers);
    if (from !== undefined) all.set("CF-Connecting-IP", from);
    if (token !== null) all.set("X-Orch-Token", token);
    const exec = createExecutionContext();
    const init = {
      method,
      headers: all,
      ...(cf && { cf }),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    } as RequestInit;
    const response = await handle(new Request(`https://x${path}`, init), bindings, exec);
    const answer = { status: response.status, headers: response.headers, text: unread ? "" : await response.text() };
    if (unread) await response.body?.cancel();
    if (!leaves) await waitOnExecutionContext(exec);
    return answer;
  };
}
