import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as z from "zod";

/*
 * A made-up service that keeps keys as JSON files, one directory an account. Ids and secrets are its own, so a lost
 * answer can only be found by the name of the key. It is stricter than it needs to be: unknown fields are refused.
 */

/** Keys are issued, roots may make keys. */
const Key = z.strictObject({
  name: z.string().regex(/^[a-z0-9-]{1,64}$/),
  kind: z.enum(["key", "root"]),
  tier: z.string().min(1),
  expires: z.number().int().positive().nullable(),
});
const Renewal = z.strictObject({ expires: z.number().int().positive() });
interface Stored extends z.infer<typeof Key> {
  readonly id: string;
  readonly secret: string;
}

/** Loses answers. `drop`: the call is not applied; `apply-then-drop`: it is. */
export interface LostAnswers {
  readonly method: string;
  readonly fault: "drop" | "apply-then-drop";
  readonly count: number;
}

export async function startMadeUpProvider() {
  const directory = mkdtempSync(join(tmpdir(), "made-up-"));
  const faults = new Map<string, { method: string; fault: LostAnswers["fault"]; left: number }[]>();

  const filesOf = (account: string): Stored[] =>
    readdirSync(join(directory, account)).map((file) =>
      JSON.parse(readFileSync(join(directory, account, file), "utf8")),
    );
  const store = (account: string, key: Stored): Stored => {
    writeFileSync(join(directory, account, `${key.id}.json`), JSON.stringify(key));
    return key;
  };
  const newKey = (account: string, key: z.infer<typeof Key>): Stored =>
    store(account, { ...key, id: randomUUID(), secret: randomUUID() });

  /** The account whose key a request has; null for an unknown or expired key. */
  const accountOf = (request: IncomingMessage, mayBe: readonly string[]): string | null => {
    const secret = request.headers.authorization?.replace(/^Bearer /, "");
    const found = readdirSync(directory).find((account) =>
      filesOf(account).some(
        (key) => key.secret === secret && mayBe.includes(key.kind) && (key.expires ?? Infinity) > Date.now(),
      ),
    );
    return found ?? null;
  };

  function answerOf(request: IncomingMessage, url: URL, body: string): [status: number, body?: unknown] {
    const { method = "GET" } = request;
    const id = /^\/keys\/([^/]+)$/.exec(url.pathname)?.[1];
    if (url.pathname === "/self") return accountOf(request, ["key", "root"]) ? [200, {}] : [401];
    const account = accountOf(request, ["root"]);
    if (account === null) return [401];
    const found = filesOf(account).find((key) => key.id === id);
    if (url.pathname === "/keys" && method === "POST") {
      const key = Key.safeParse(JSON.parse(body));
      if (!key.success) return [400];
      const { secret, id: made } = newKey(account, key.data);
      return [201, { id: made, secret }];
    }
    if (url.pathname === "/keys" && method === "GET") {
      const named = filesOf(account).filter(({ name }) => name === url.searchParams.get("name"));
      return [200, named.map((key) => key.id)];
    }
    if (id === undefined) return [404];
    if (!found) return [404];
    if (method === "DELETE") {
      rmSync(join(directory, account, `${found.id}.json`));
      return [204];
    }
    const renewal = method === "PATCH" ? Renewal.safeParse(JSON.parse(body)) : null;
    if (!renewal?.success) return [400];
    store(account, { ...found, expires: renewal.data.expires });
    return [200, {}];
  }

  /** The control of tests: accounts, faults, and all that an account has. */
  function controlOf(url: URL, body: string): unknown {
    const account = url.searchParams.get("account") ?? randomUUID();
    if (url.pathname === "/_double/accounts") {
      mkdirSync(join(directory, account));
      const root = newKey(account, { name: "first", kind: "root", tier: "root", expires: null });
      return { account, key: root.secret };
    }
    if (url.pathname === "/_double/faults") {
      const { count: left, ...fault } = JSON.parse(body) as LostAnswers;
      faults.set(account, [...(faults.get(account) ?? []), { ...fault, left }]);
      return {};
    }
    return filesOf(account);
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://localhost");
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    if (url.pathname.startsWith("/_double/")) {
      response.end(JSON.stringify(controlOf(url, body)));
      return;
    }
    const account = accountOf(request, ["root"]);
    const fault = faults.get(account ?? "")?.find(({ method, left }) => left > 0 && method === request.method);
    if (fault) fault.left--;
    if (fault?.fault !== "drop") {
      const [status, answer] = answerOf(request, url, body);
      if (!fault) {
        response.writeHead(status).end(answer === undefined ? "" : JSON.stringify(answer));
        return;
      }
    }
    request.socket.destroy();
  }

  const server = createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
