import { connect, type PeerCertificate } from "node:tls";
import type { Fields } from "../api.ts";
import { textOf } from "../command.ts";
import type { Server } from "../environment.ts";
import { type Finding, findings } from "./finding.ts";

/** The way to the service: address, TLS, clock, and the health that needs no token. */

interface Reached {
  readonly found: readonly Finding[];
  /** Null without an answer of the service. */
  readonly health: Fields | null;
}

const PATIENCE_MS = 15_000;
const CLOCK_MS = 30_000;
const DAY_MS = 24 * 3600 * 1000;
const CERTIFICATE_DAYS = 14;

const ACTIONS: readonly (readonly [code: RegExp, action: string])[] = [
  [/ENOTFOUND|EAI_AGAIN/, "the name has no address: check SALLYPORT_ADDR and DNS"],
  [/ECONNREFUSED/, "nothing listens there: start the service, or check the port"],
  [/CERT_HAS_EXPIRED/, "renew the certificate"],
  [/ALTNAME/, "the certificate is for another name: use that name, or renew it for this one"],
  [/SELF_SIGNED|UNABLE_TO_(?:VERIFY|GET)/, "name your certificate authority: NODE_EXTRA_CA_CERTS=FILE"],
  [/EPROTO|WRONG_VERSION/, "the port does not speak TLS: use http:// or the right port"],
];

export async function reach({ address, token }: Server): Promise<Reached> {
  const { ok, problem } = findings("reachable");
  const url = new URL("v1/sys/health?counts=true", address.href.replace(/\/?$/, "/"));
  const before = Date.now();
  try {
    const answer = await fetch(url, {
      headers: { "X-Orch-Token": token },
      redirect: "manual",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const body = await answer.text();
    const after = Date.now();
    const health = healthIn(body);
    if (health === null) {
      const action = "check SALLYPORT_ADDR: something else answers there";
      return { found: [problem(`status ${answer.status} is not an answer of this service`, action)], health };
    }
    const took = `answers ${answer.status} in ${after - before} ms`;
    return { found: [ok(took), ...clock(health, before, after), ...(await encryption(address))], health };
  } catch (failure) {
    const code = codeOf(failure);
    const action = ACTIONS.find(([pattern]) => pattern.test(code))?.[1] ?? "check address, network and proxies";
    return { found: [problem(textOf(failure) || code, action)], health: null };
  }
}

function healthIn(body: string): Fields | null {
  try {
    const health = JSON.parse(body);
    return typeof health?.initialized === "boolean" ? health : null;
  } catch {
    return null;
  }
}

function codeOf(failure: unknown): string {
  const { code = "", cause } = failure as { code?: unknown; cause?: unknown };
  return cause ? codeOf(cause) : `${String(code)} ${textOf(failure)}`;
}

/** The service's clock has full seconds. */
function clock({ server_time_utc }: Fields, before: number, after: number): Finding[] {
  const { ok, problem, unknown } = findings("clock");
  if (typeof server_time_utc !== "number") return [unknown("the service does not tell its time")];
  const there = server_time_utc * 1000;
  const differenceMs = Math.max(0, before - (there + 1000), there - after);
  const seconds = Math.round(differenceMs / 1000);
  if (differenceMs <= CLOCK_MS) return [ok(`differs by at most ${seconds + 1} s`)];
  return [problem(`differs by ${seconds} s from the service's`, "synchronize the clock of this machine (NTP)")];
}

const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

async function encryption(address: URL): Promise<Finding[]> {
  const { ok, warning, problem, unknown } = findings("tls");
  if (address.protocol === "http:")
    return LOOPBACK.test(address.hostname)
      ? [ok("not used on loopback")]
      : [problem("http:// shows the token to the network", "use https://")];
  const certificate = await certificateOf(address).catch(() => null);
  const ends = certificate === null ? Number.NaN : Date.parse(certificate.valid_to);
  if (Number.isNaN(ends)) return [unknown("the certificate could not be read")];
  const days = Math.floor((ends - Date.now()) / DAY_MS);
  if (days >= CERTIFICATE_DAYS) return [ok(`the certificate is valid for ${days} days`)];
  return [warning(`the certificate is valid for ${days} days`, "renew the certificate")];
}

function certificateOf({ hostname, port }: URL): Promise<PeerCertificate> {
  const host = hostname.replace(/^\[|\]$/g, "");
  return new Promise((resolve, reject) => {
    const socket = connect(
      { host, port: Number(port || 443), ...(/[a-z]/i.test(host) && { servername: host }) },
      () => {
        resolve(socket.getPeerCertificate());
        socket.end();
      },
    );
    socket.setTimeout(PATIENCE_MS, () => socket.destroy(new Error("timeout")));
    socket.on("error", reject);
  });
}

/** Steps for the operator, by names in `degraded` and `failing` of health. */
const PARTS: Readonly<Record<string, string>> = {
  access_control: "no request is authorized: see the service's log, and docs/operate/backup.md for lost storage",
  event_log: "events are delayed and streams do not open: see the service's log",
  cluster_registry: "nodes and volumes fail: see the service's log",
  sync_control: "no push starts: see the service's log",
  listings:
    "see the service's log; on Cloudflare check the D1 binding LISTINGS and its migrations: docs/operate/deploy.md",
  outbox: "deliveries are late: the metric sallyport_outbox_oldest_age_seconds names the object",
  snapshots: "a scheduled snapshot is late: see the service's log for the cause, and docs/operate/backup.md",
  disk: "free space under STATE_DIR",
  storage: "storage of an object is lost: docs/internals/storage.md",
};

/** Findings in the answer of health. */
export function health(fields: Fields): Finding[] {
  const seal = findings("sealed");
  const { ok, problem } = findings("health");
  const sealed = fields["sealed"]
    ? seal.problem(String(fields["sealed_because"] ?? "the service is sealed"), "set MASTER_KEY to the key of the data")
    : seal.ok("unsealed");
  const parts: string[] = [...(fields["failing"] ?? []), ...(fields["degraded"] ?? [])];
  const bad = parts.map((part) =>
    problem(
      `${part}: ${fields["parts"]?.[part] ?? "degraded"}`,
      PARTS[part] ?? "docs/operate/metrics.md explains parts",
    ),
  );
  const lost: string[] = fields["lost_objects"] ?? [];
  if (lost.length > 0) bad.push(problem(`lost objects: ${lost.slice(0, 5).join(", ")}`, PARTS["storage"] ?? ""));
  return [sealed, ...(bad.length > 0 ? bad : [ok(`${Object.keys(fields["parts"] ?? {}).length} parts work`)])];
}
