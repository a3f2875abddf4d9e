/** A deployment of the service for the bench: its server, its root token, and the tables of its listings. */
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT, Server } from "./server.ts";

export interface Deployment {
  readonly server: Server;
  /** Its root token. */
  readonly token: string;
  readonly ask: Ask;
}

export interface DeploymentOptions {
  /** Settings besides the master key and the root token, which may be given as well. */
  readonly vars?: Readonly<Record<string, string>>;
  /** A port for a profiler. */
  readonly inspector?: string | undefined;
  /** See `Plan`. */
  readonly root?: string | undefined;
}

/** @param dir an empty directory for the bundle and the data */
export async function startDeployment(
  dir: string,
  { vars, inspector, root }: DeploymentOptions = {},
): Promise<Deployment> {
  const settings: Record<string, string> = {
    MASTER_KEY: randomBytes(32).toString("base64"),
    DEV_ROOT_TOKEN: randomBytes(16).toString("hex"),
    ...vars,
  };
  const plan = { name: "ours", config: "wrangler.toml", main: "bench/ours/worker.mts", vars: settings, root };
  const server = await Server.start(plan, dir, inspector);
  const token = settings["DEV_ROOT_TOKEN"] ?? "";
  const ask = asker(server, token);
  const migrations = join(root ?? ROOT(), "migrations");
  const tables = readdirSync(migrations).sort();
  await ask(
    "POST",
    "/bench/listings",
    tables.map((name) => readFileSync(join(migrations, name), "utf8")),
  );
  return { server, token, ask };
}

export type Ask = (method: string, path: string, body: unknown) => Promise<string>;

/** Single requests with the API, for whatever is not measured. */
export function asker(server: Server, token: string): Ask {
  return async (method, path, body) => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, {
      method,
      headers: { "X-Orch-Token": token, ...(method === "PATCH" && { "Content-Type": "application/merge-patch+json" }) },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text;
  };
}
