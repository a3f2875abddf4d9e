import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { z } from "zod";
import type { Api } from "../api.ts";
import { countOf, Failure, type Io, textOf } from "../command.ts";

/**
 * A login at an OpenID provider: the browser returns to this machine with a code, which the service exchanges. The nonce
 * binds the exchange to this process, so that a code that another page sends here is useless.
 */

const PATIENCE_MS = 300_000;
const PAGE = "<!doctype html><title>Sallyport</title><p>Back to the terminal: this window can be closed.</p>";

interface Given {
  readonly role: string | undefined;
  readonly port: string | undefined;
  readonly "no-browser": boolean;
}

/** @returns the answer of the service with the token @throws Failure, ApiError */
export async function browserLogin(api: Api, mount: string, given: Given, io: Io): Promise<{ text: string }> {
  const port = countOf("port", given.port ?? "8250", 1, 65_535);
  const client_nonce = randomUUID();
  const redirect_uri = `http://localhost:${port}/oidc/callback`;
  const body = JSON.stringify({ role: given.role ?? "", redirect_uri, client_nonce });
  const { text } = await api.call("POST", `auth/${mount}/oidc/auth_url`, { body });
  const { data } = z.object({ data: z.object({ auth_url: z.string() }) }).parse(JSON.parse(text));
  if (data.auth_url === "")
    throw new Failure(
      `the role does not allow ${redirect_uri}, or the provider cannot be reached: see the role's allowed_redirect_uris`,
    );
  const back = await returned(port);
  io.note(`Log in at:\n${data.auth_url}`);
  if (!given["no-browser"]) openBrowser(data.auth_url);
  const answer = await back.parameters;
  const refusal = answer.get("error");
  if (refusal !== null)
    throw new Failure(`the provider refused the login: ${answer.get("error_description") ?? refusal}`);
  const query = Object.fromEntries(
    ["state", "code", "iss"].flatMap((name) => (answer.has(name) ? [[name, answer.get(name) ?? ""]] : [])),
  );
  return api.call("GET", `auth/${mount}/oidc/callback`, { query: { ...query, client_nonce } });
}

/** Listens for the browser's return. @returns its parameters, by query or form, once the port is open */
async function returned(port: number): Promise<{ readonly parameters: Promise<URLSearchParams> }> {
  const server = createServer();
  const parameters = new Promise<URLSearchParams>((resolve, reject) => {
    server.on("request", (request, response) => {
      const url = new URL(request.url ?? "/", "http://localhost");
      if (url.pathname !== "/oidc/callback") return response.writeHead(404).end();
      formOf(request).then((form) => {
        const parameters = new URLSearchParams([...url.searchParams, ...form]);
        if (!parameters.has("state")) return response.writeHead(400).end();
        response.writeHead(200, {
          "Content-Type": "text/html; charset=utf-8",
          "Content-Security-Policy": "default-src 'none'",
          Connection: "close",
        });
        response.end(PAGE);
        end();
        resolve(parameters);
      }, reject);
    });
    const end = () => {
      clearTimeout(late);
      server.close();
      server.closeIdleConnections();
    };
    const late = setTimeout(() => {
      end();
      reject(new Failure("no login within 5 minutes"));
    }, PATIENCE_MS);
    server.on("error", (failure) => {
      clearTimeout(late);
      reject(new Failure(`port ${port} of this machine: ${textOf(failure)}: choose another with --port`));
    });
    server.listen(port, "localhost");
  });
  await Promise.race([once(server, "listening"), parameters]);
  return { parameters };
}

const MOST_BYTES = 65_536;

async function formOf(request: IncomingMessage): Promise<URLSearchParams> {
  let text = "";
  for await (const chunk of request) {
    text += String(chunk);
    if (text.length > MOST_BYTES) break;
  }
  return new URLSearchParams(request.method === "POST" ? text : "");
}

const OPENERS: Readonly<Record<string, readonly string[]>> = {
  darwin: ["open"],
  win32: ["rundll32", "url.dll,FileProtocolHandler"],
};

/** Without a browser the person opens the printed address. */
function openBrowser(url: string): void {
  const [program = "xdg-open", ...args] = OPENERS[process.platform] ?? ["xdg-open"];
  spawn(program, [...args, url], { stdio: "ignore", detached: true })
    .on("error", () => undefined)
    .unref();
}
