import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import type { TlsFiles } from "./http-client.ts";
import { TOPIC_NAMES, type Topic } from "./topics.ts";

export interface Options {
  readonly nomad: { readonly address: URL; readonly token: string; readonly region: string; readonly tls: TlsFiles };
  readonly service: { readonly address: URL; readonly token: string; readonly tls: TlsFiles };
  readonly stateDir: string;
  readonly source: string;
  readonly topics: readonly Topic[];
  readonly namespaces: ReadonlySet<string> | null;
  readonly reconcileMs: number;
  /** Null disables metrics. */
  readonly metrics: { readonly host: string; readonly port: number } | null;
}

/** The options, for this program and for `sallyport relay nomad`. */
export const RELAY_OPTIONS = {
  "state-dir": { value: "DIR", help: "position in the stream (default /var/lib/sallyport-relay)", isMultiple: false },
  namespace: { value: "NAME", help: "mirror this namespace; may be repeated (default: all)", isMultiple: true },
  topic: {
    value: "TOPIC",
    help: `mirror this topic; may be repeated (default: all of ${TOPIC_NAMES.join(", ")})`,
    isMultiple: true,
  },
  source: { value: "NAME", help: "name of the source of reports (default nomad/REGION)", isMultiple: false },
  reconcile: {
    value: "TIME",
    help: "interval of searches for deleted objects, such as 90s, 10m, 1h (default 10m)",
    isMultiple: false,
  },
  metrics: {
    value: "ADDRESS",
    help: 'HOST:PORT of /metrics and /health, or "off" (default 127.0.0.1:9464)',
    isMultiple: false,
  },
} as const;

export const RELAY_ABOUT = "Mirrors a Nomad region into Sallyport until SIGTERM or SIGINT.";

export const RELAY_ENVIRONMENT = `Environment: NOMAD_ADDR, NOMAD_TOKEN or NOMAD_TOKEN_FILE, NOMAD_REGION, NOMAD_CACERT, NOMAD_CLIENT_CERT,
NOMAD_CLIENT_KEY, NOMAD_TLS_SERVER_NAME; SALLYPORT_ADDR, SALLYPORT_TOKEN or SALLYPORT_TOKEN_FILE, SALLYPORT_CACERT.`;

export const USAGE = `Usage: node sallyport-relay.mjs nomad [options]

${RELAY_ABOUT}

${Object.entries(RELAY_OPTIONS)
  .map(([name, { value, help }]) => `  ${`--${name} ${value}`.padEnd(20)}${help}`)
  .join("\n")}

${RELAY_ENVIRONMENT}
`;

/** The options cannot be used. */
export class InvalidOptions extends Error {}

type Environment = Readonly<Record<string, string | undefined>>;

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600 };

/** @throws InvalidOptions naming the option */
export function readOptions(argv: readonly string[], env: Environment): Options {
  const { values, positionals } = parsed(argv);
  const [kind, ...more] = positionals[0] === "relay" ? positionals.slice(1) : positionals;
  if (kind !== "nomad" || more.length > 0) throw new InvalidOptions("the only kind of relay is nomad");
  const region = env["NOMAD_REGION"] ?? "";
  const topics = values.topic?.map((name) => topicOf(name)) ?? TOPIC_NAMES;
  return {
    nomad: {
      address: addressOf("NOMAD_ADDR", env["NOMAD_ADDR"] ?? "http://127.0.0.1:4646"),
      token: tokenOf("NOMAD_TOKEN", env),
      region,
      tls: tlsOf("NOMAD", env),
    },
    service: {
      address: addressOf("SALLYPORT_ADDR", env["SALLYPORT_ADDR"] ?? ""),
      token: tokenOf("SALLYPORT_TOKEN", env),
      tls: tlsOf("SALLYPORT", env),
    },
    stateDir: values["state-dir"] ?? "/var/lib/sallyport-relay",
    source: sourceOf(values.source ?? `nomad/${region === "" ? "global" : region}`),
    topics: TOPIC_NAMES.filter((name) => topics.includes(name)),
    namespaces: values.namespace ? new Set(values.namespace) : null,
    reconcileMs: durationOf(values.reconcile ?? "10m"),
    metrics: metricsOf(values.metrics ?? "127.0.0.1:9464"),
  };
}

function parsed(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        "state-dir": { type: "string" },
        source: { type: "string" },
        reconcile: { type: "string" },
        metrics: { type: "string" },
        namespace: { type: "string", multiple: true },
        topic: { type: "string", multiple: true },
      },
    });
  } catch (failure) {
    throw new InvalidOptions(failure instanceof Error ? failure.message : String(failure), { cause: failure });
  }
}

function topicOf(name: string): Topic {
  const topic = TOPIC_NAMES.find((each) => each === name);
  if (!topic) throw new InvalidOptions(`--topic: must be one of ${TOPIC_NAMES.join(", ")}`);
  return topic;
}

/** The service's rule, less the room for the number of an epoch. */
function sourceOf(name: string): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9._:/-]{0,111}$/.test(name))
    throw new InvalidOptions("--source: must be at most 112 letters, digits, or any of . _ : / -");
  return name;
}

function addressOf(name: string, value: string): URL {
  if (value === "") throw new InvalidOptions(`${name}: must be set to a URL`);
  const url = URL.canParse(value) ? new URL(value) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw new InvalidOptions(`${name}: must be a URL`);
  return url;
}

function tokenOf(name: string, env: Environment): string {
  const file = env[`${name}_FILE`];
  return file ? contentOf(`${name}_FILE`, file).trim() : (env[name] ?? "");
}

function tlsOf(prefix: string, env: Environment): TlsFiles {
  const content = (name: string) => (env[name] ? contentOf(name, env[name]) : undefined);
  const [ca, cert, key] = ["CACERT", "CLIENT_CERT", "CLIENT_KEY"].map((name) => content(`${prefix}_${name}`));
  const servername = env[`${prefix}_TLS_SERVER_NAME`];
  return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }), ...(servername && { servername }) };
}

function contentOf(name: string, path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (failure) {
    throw new InvalidOptions(`${name}: ${failure instanceof Error ? failure.message : String(failure)}`);
  }
}

function durationOf(value: string): number {
  const [, amount, unit = ""] = /^(\d{1,6})([smh])$/.exec(value) ?? [];
  const ms = Number(amount) * (SECONDS[unit] ?? 0) * 1000;
  if (!(ms >= 1000 && ms <= 24 * 3600 * 1000)) throw new InvalidOptions("--reconcile: must be from 1s to 24h");
  return ms;
}

function metricsOf(value: string): Options["metrics"] {
  if (value === "off") return null;
  const [, host, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.test(value)
    ? [value, value.slice(0, value.lastIndexOf(":")).replace(/^\[|\]$/g, ""), value.slice(value.lastIndexOf(":") + 1)]
    : [];
  if (host === undefined || Number(port) > 65_535) throw new InvalidOptions("--metrics: must be HOST:PORT or off");
  return { host, port: Number(port) };
}
