/** Sides of the engine bench: the service with its mounts, the bare Worker, and the cloud stand-in that both call. */
import { type ChildProcess, fork } from "node:child_process";
import { generateKeyPairSync, randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { OtherKind } from "./bare/cloud.mts";
import { startDeployment } from "./deployment.ts";
import type { Seen, Ask as ToDouble } from "./engine-double.ts";
import { Server } from "./server.ts";

/** The stand-in as the bench sees it. */
export class CloudDouble {
  readonly url: string;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (seen: Seen) => void>();
  #next = 0;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.url = `http://127.0.0.1:${port}`;
    child.on("message", ({ id, seen }: { id: number; seen: Seen }) => {
      this.#waiting.get(id)?.(seen);
      this.#waiting.delete(id);
    });
  }

  static async start(): Promise<CloudDouble> {
    const child = fork(fileURLToPath(import.meta.resolve("./engine-double.ts")), []);
    const [{ port }] = (await once(child, "message")) as [{ port: number }];
    return new CloudDouble(child, port);
  }

  ask(ask: ToDouble): Promise<Seen> {
    const id = this.#next++;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#child.send({ id, ask });
    });
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }
}

const SUBSCRIPTION = randomUUID();
const SCOPE = `/subscriptions/${SUBSCRIPTION}/resourceGroups/bench`;
const ROLE = `/subscriptions/${SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/${randomUUID()}`;
const GROUP = randomUUID();
/** Calls that remove what one lease holds: the assignment, the membership, the principal and the application. */
export const CALLS_A_REMOVAL = 4;

/** Where requests about credentials go; ours end in a key's name, which the bare Worker does not read. */
export interface EngineSide {
  readonly server: Server;
  readonly token: string;
  readonly issue: string;
  /** @param set of leases that were filled */
  readonly revoke: (set: string) => string;
}

export interface EngineMount {
  readonly name: string;
  /** Gives it leases. Times in ms since 1970; the leases end evenly between them. */
  readonly fill: (set: string, count: number, firstEnd: number, lastEnd: number) => Promise<void>;
  readonly leases: () => Promise<number>;
  /** Gives the role a pool of this size, and waits until it has it; 0 empties it. */
  readonly pool: (size: number) => Promise<void>;
}

export interface EngineService {
  readonly server: Server;
  readonly token: string;
  readonly mount: (name: string) => Promise<EngineMount>;
  readonly side: (mount: EngineMount) => EngineSide;
  /** The path that issues credentials of another engine, which is mounted with a role. */
  readonly other: (kind: OtherKind) => Promise<string>;
}

/** The path of the bare Worker that sends the same calls. */
export const bareOther = (kind: OtherKind): string => `/others/${kind}${UNREAD}`;

/** Neither side reads it: keys' names are appended to every path. */
const UNREAD = "?bench=";
const FILLED_AT_ONCE = 5_000;
const POOL_POLL_MS = 100;

/** @param root see `Plan` */
export async function startEngines(dir: string, double: CloudDouble, root?: string): Promise<EngineService> {
  const vars = {
    CLOUD_B_LOGIN_URL: double.url,
    CLOUD_B_GRAPH_URL: double.url,
    CLOUD_B_ARM_URL: double.url,
    CLOUD_A_IAM_URL: double.url,
    CLOUD_A_STS_URL: double.url,
    CLOUD_C_API_URL: double.url,
    CLOUD_C_TOKEN_URL: `${double.url}/token`,
  };
  const inspector = process.env["BENCH_INSPECTOR"];
  const { server, token, ask } = await startDeployment(join(dir, "engine-ours"), { vars, inspector, root });
  return {
    server,
    token,
    side: ({ name }) => ({
      server,
      token,
      issue: `/v1/${name}/creds/app${UNREAD}`,
      revoke: (set) => `/v1/sys/leases/revoke/${name}/creds/${set}/`,
    }),
    async other(kind) {
      const { type, documents, issue } = others(kind);
      await ask("PUT", `/v1/sys/mounts/${kind}`, { type });
      for (const [path, body] of documents) await ask("PUT", `/v1/${kind}/${path}`, body);
      return `/v1/${kind}/${issue}${UNREAD}`;
    },
    async mount(name) {
      await ask("PUT", `/v1/sys/mounts/${name}`, { type: "cloud-b" });
      await ask("PUT", `/v1/${name}/config`, {
        subscription_id: SUBSCRIPTION,
        tenant_id: randomUUID(),
        client_id: randomUUID(),
        client_secret: randomBytes(16).toString("hex"),
      });
      const rights = { cloud_roles: [{ role_id: ROLE, scope: SCOPE }], cloud_groups: [{ object_id: GROUP }] };
      await ask("PUT", `/v1/${name}/roles/app`, rights);
      const mounts = JSON.parse(await ask("GET", "/v1/sys/mounts", undefined)) as {
        data: Record<string, { uuid: string }>;
      };
      const uuid = mounts.data[`${name}/`]?.uuid;
      return {
        name,
        async fill(set, count, firstEnd, lastEnd) {
          const at = (number: number) => firstEnd + ((lastEnd - firstEnd) * number) / count;
          for (let from = 0; from < count; from += FILLED_AT_ONCE) {
            const to = Math.min(count, from + FILLED_AT_ONCE);
            const times = { firstEnd: at(from), lastEnd: at(to) };
            await ask("POST", "/bench/leases", {
              uuid,
              prefix: `creds/${set}/`,
              from,
              to,
              scope: SCOPE,
              group: GROUP,
              ...times,
            });
          }
        },
        async pool(size) {
          await ask("PUT", `/v1/${name}/roles/app`, { ...rights, pool_size: size });
          for (;;) {
            const { data } = JSON.parse(await ask("GET", `/v1/${name}/roles/app`, undefined)) as {
              data: { pool_ready?: number };
            };
            if ((data.pool_ready ?? 0) === size) return;
            await setTimeout(POOL_POLL_MS);
          }
        },
        async leases() {
          const { data } = JSON.parse(await ask("GET", "/v1/sys/leases/count", undefined)) as {
            data: { counts: Record<string, number> };
          };
          return data.counts[`${name}/`] ?? 0;
        },
      };
    },
  };
}

interface Other {
  readonly type: string;
  readonly documents: readonly (readonly [path: string, body: unknown])[];
  readonly issue: string;
}

function others(kind: OtherKind): Other {
  if (kind === "google-token") {
    const email = "app@bench.example";
    const credentials = {
      type: "service_account",
      project_id: "bench-project",
      private_key_id: randomBytes(20).toString("hex"),
      private_key: generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({
        type: "pkcs8",
        format: "pem",
      }),
      client_email: "sallyport@bench.iam.gserviceaccount.com",
    };
    const account = { service_account_email: email, token_scopes: ["https://www.googleapis.com/auth/cloud-platform"] };
    return {
      type: "cloud-c",
      documents: [
        ["config", { credentials: JSON.stringify(credentials) }],
        ["impersonated-account/app", account],
      ],
      issue: "impersonated-account/app/token",
    };
  }
  const root = { access_key: "AKIABENCH", secret_key: randomBytes(20).toString("hex"), region: "us-east-1" };
  const role =
    kind === "aws-user"
      ? { credential_type: "iam_user", policy_arns: ["arn:aws:iam::aws:policy/ReadOnlyAccess"] }
      : { credential_type: "assumed_role", role_arns: ["arn:aws:iam::123456789012:role/app"] };
  return {
    type: "cloud-a",
    documents: [
      ["config/root", root],
      ["roles/app", role],
    ],
    issue: kind === "aws-user" ? "creds/app" : "sts/app",
  };
}

export async function startBareCloud(dir: string, double: CloudDouble): Promise<EngineSide> {
  const vars = {
    CLOUD_URL: double.url,
    RIGHTS: JSON.stringify({ scope: SCOPE, roleDefinitionId: ROLE, group: GROUP }),
  };
  const plan = { name: "bare", config: "bench/bare/wrangler.toml", main: "bench/bare/worker.mts", vars };
  const server = await Server.start(plan, join(dir, "engine-bare"));
  return { server, token: "none", issue: `/credentials${UNREAD}`, revoke: () => `/credentials${UNREAD}` };
}
