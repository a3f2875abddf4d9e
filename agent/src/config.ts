import { readFileSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { isAbsolute, normalize } from "node:path";
import { mapOf, text } from "@sallyport/agent-protocol";
import * as z from "zod";
import { csiConfig } from "./csi/index.ts";
import { PLUGIN_NAME } from "./dhv/index.ts";
import { Ending, EXIT } from "./exit.ts";
import { textOf } from "./log.ts";

const directory = z
  .string()
  .max(4096)
  .refine((path) => isAbsolute(path), "must be an absolute path")
  .transform((path) => normalize(path).replace(/(?<=.)\/$/, ""))
  .refine((path) => path !== "/", "must not be the root directory");

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

const service = z
  .string()
  .refine((value) => URL.canParse(value), "must be a URL")
  .transform((value) => new URL(value))
  .refine(
    ({ protocol, hostname }) => protocol === "https:" || (protocol === "http:" && LOOPBACK.test(hostname)),
    "must begin with https:// (http:// is for loopback only)",
  )
  .refine(
    ({ username, password, pathname, search, hash }) => !username && !password && pathname === "/" && !search && !hash,
    "must be an origin alone, without user, path or query",
  )
  .transform(({ origin }) => origin);

const PROXY_KINDS = ["http:", "https:"];

const proxy = z
  .string()
  .refine(
    (value) => value === "none" || (URL.canParse(value) && PROXY_KINDS.includes(new URL(value).protocol)),
    'must be an http:// or https:// URL, or "none"',
  );

const MONITOR = /^(127(?:\.\d{1,3}){3}|\[::1\]|localhost):(\d{1,5})$/;

const label = (most: number) => text(most).refine((value) => !/\p{Cc}/u.test(value), "has control characters");
const required = (most: number) => label(most).refine((value) => value !== "", "must not be empty");

const plugin = z.strictObject({
  name: z
    .string()
    .regex(PLUGIN_NAME, "must be a file name of letters, digits, dot, dash, underscore")
    .refine((name) => name !== "mkdir", "mkdir is built in"),
  sha256: z
    .string()
    .regex(/^[0-9a-fA-F]{64}$/, "must be 64 hexadecimal digits")
    .optional(),
});

const config = z.strictObject({
  service,
  name: required(128).default(() => hostname()),
  datacenter: required(128).default("dc1"),
  pool: required(128)
    .refine((pool) => pool !== "all", 'must not be "all"')
    .default("default"),
  class: label(128).default(""),
  meta: mapOf(label(1024), 128).default({}),
  stateDir: directory.default("/var/lib/sallyport-agent"),
  joinTokenFile: directory.optional(),
  /** PEM file of certificate authorities that are trusted besides the public ones. */
  caFile: directory.optional(),
  /** The proxy to the service; `none`, or the proxy of the environment by default. */
  proxy: proxy.optional(),
  /** Where `/health` and `/metrics` are served. */
  monitorAddress: z
    .string()
    .refine((value) => Number(MONITOR.exec(value)?.[2] ?? 65_536) <= 65_535, "must be a loopback address with a port")
    .optional(),
  reserved: z
    .strictObject({
      cpuShares: z.int().nonnegative().default(0),
      memoryMB: z.int().nonnegative().default(0),
      diskMB: z.int().nonnegative().default(0),
      ports: label(1024).default(""),
    })
    .prefault({}),
  hostVolumes: z
    .strictObject({
      volumesDir: directory.default("/var/lib/sallyport-agent/volumes"),
      pluginDir: directory.default("/opt/sallyport-agent/plugins"),
      plugins: z
        .array(plugin)
        .max(64)
        .refine((plugins) => new Set(plugins.map(({ name }) => name)).size === plugins.length, "names a plugin twice")
        .default([]),
      registerRoots: z.array(directory).max(64).default([]),
    })
    .prefault({}),
  csi: csiConfig(directory).prefault({}),
});

/** The operator's configuration; the service cannot change it. */
export type Config = Readonly<z.infer<typeof config>>;

const OTHERS_WRITE = 0o002;
const OTHERS_READ = 0o004;

/** @throws Ending naming every wrong key and its fault */
export function readConfig(path: string): Config {
  const unusable = (because: string) =>
    new Ending(EXIT.unusable, `The configuration ${path} cannot be used: ${because}.`);
  let content: string;
  let mode: number;
  try {
    content = readFileSync(path, "utf8");
    mode = statSync(path).mode;
  } catch (failure) {
    throw unusable(textOf(failure));
  }
  if ((mode & OTHERS_WRITE) !== 0)
    throw unusable("anyone on this machine can change it (chmod o-w), and it decides what may run here");
  const config = parseConfig(path, content);
  if ((mode & OTHERS_READ) !== 0 && URL.canParse(config.proxy ?? "") && new URL(config.proxy ?? "").password !== "")
    throw unusable("anyone on this machine can read it (chmod o-r), and proxy has a password");
  return config;
}

export function parseConfig(path: string, content: string): Config {
  let json: unknown;
  try {
    json = JSON.parse(content);
  } catch (failure) {
    throw new Ending(EXIT.unusable, `The configuration ${path} is not JSON: ${textOf(failure)}.`);
  }
  const parsed = config.safeParse(json);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.flatMap((issue) =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => `  ${[...issue.path, key].join(".")}: there is no such key`)
      : [`  ${issue.path.join(".") || "(all)"}: ${issue.message}`],
  );
  throw new Ending(EXIT.unusable, `The configuration ${path} is wrong:\n${faults.join("\n")}`);
}
