/** Lines of the audit log (docs/operate/audit.md): what happened, to which object of the console, and how it ended. */
import type { Schemas } from "../../api/client.ts";
import { csiVolumeHref, hostVolumeHref, jobHref, nodeHref } from "../../app/cluster-links.ts";
import { href } from "../../app/router.ts";
import type { Tone } from "../../components/status.tsx";

export type Line = Schemas["AuditLine"] & Readonly<Record<string, unknown>>;

export const textOf = (line: Line, name: string): string => {
  const value = line[name];
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
};

/** Fields that name the object of an action, the most telling one first. */
const ABOUT = ["about", "lease", "destination", "volume", "node", "job", "role", "prefix", "mount"];

/** The outcome of a push; null for other lines. */
export function syncOf(line: Line): "failed" | "removed" | "synced" | null {
  if (textOf(line, "event") !== "secret-synced") return null;
  if (Number(line["failed"] ?? 0) > 0) return "failed";
  return Number(line["removed"] ?? 0) > 0 ? "removed" : "synced";
}

const SYNC = { failed: "sync failed", removed: "sync removed", synced: "synced" };

/** `GET secret/data/app`, or an action and its object: `synced app/database → in-mem/playground`. */
export function titleOf(line: Line): string {
  if (line.kind !== "action") return `${textOf(line, "method")} ${textOf(line, "path").replace(/^\/v1\//, "")}`;
  const sync = syncOf(line);
  const event = sync ? SYNC[sync] : textOf(line, "event").replaceAll("-", " ");
  const secret = textOf(line, "secret");
  const about = textOf(line, ABOUT.find((name) => textOf(line, name) !== "") ?? "");
  return [event, secret, secret && about && "→", about].filter(Boolean).join(" ");
}

/** Accessor of the token that caused a line. */
export const actorOf = (line: Line): string =>
  textOf(line, "by") || textOf(line, "accessor") || (line.kind === "action" ? textOf(line, "token") : "");

/** Fields of an action that another column shows, or that only machines read. */
const OTHERS = [
  "level",
  "kind",
  "time",
  "event",
  "secret",
  "accessor",
  "by",
  "token",
  "namespace",
  "requestId",
  "association",
  "wish",
  "engine",
  "operation",
  ...ABOUT,
];

/** Counts and remarks of an action: `1 pushed, 0 failed`. */
function detailsOf(line: Line): string {
  const others = Object.entries(line).filter(([name]) => !OTHERS.includes(name));
  if (!syncOf(line)) return others.map(([name, value]) => `${name} ${String(value)}`).join(", ");
  return others
    .filter(([name, value]) => value !== 0 || name === "pushed" || name === "failed")
    .map(([name, value]) => `${String(value)} ${name}`)
    .join(", ");
}

export function endOf(line: Line): { readonly tone: Tone; readonly word: string } {
  const status = Number(line["status"] ?? 0);
  if (line.kind === "request") return { tone: "wait", word: "received" };
  if (line.kind === "action")
    return { tone: syncOf(line) === "failed" ? "bad" : "ok", word: detailsOf(line) || "done" };
  if (status >= 500) return { tone: "bad", word: `${status} ${textOf(line, "error")}` };
  if (status >= 400) return { tone: "warn", word: `${status} ${textOf(line, "error")}` };
  return { tone: "ok", word: String(status) };
}

const READS = /\/(lookup|lookup-accessor|lookup-self|capabilities-self|search\/fuzzy)$/;

/** A request that reads, also a refused one. */
export const isRead = (line: Line): boolean =>
  line.kind !== "action" &&
  (["GET", "LIST", "HEAD"].includes(textOf(line, "method")) || READS.test(textOf(line, "path")));

/** Where the console shows the object of a line; null where it shows none. */
export function objectHref(line: Line): string | null {
  const path = decoded(textOf(line, "path").replace(/^\/v1\//, "")).split("/");
  const [first = "", second = "", third = ""] = path;
  const namespace = textOf(line, "namespace");
  const mount = textOf(line, "mount").replace(/\/$/, "");
  if (textOf(line, "route").includes("{kv}") && mount !== "") {
    const secret = path.slice(mount.split("/").length + (namespace ? namespace.split("/").length - 1 : 0) + 1);
    return href("secrets", secret.length > 0 ? [mount, "at", ...secret] : [mount], { ns: namespace || null });
  }
  const destination = textOf(line, "destination").split("/");
  // Those of other namespaces have longer names.
  if (destination.length === 2) return href("sync", destination, { ns: null });
  const joined = path.join("/");
  const [, type, name] = /sys\/sync\/destinations\/([^/]+)\/([^/]+)/.exec(joined) ?? [];
  if (type && name) return href("sync", [type, name], { ns: namespace || null });
  if (/(^|\/)sys\/(policies|capabilities|auth)|(^|\/)(auth|identity)\//.test(joined))
    return href("access", [], { ns: namespace || null });
  if (first === "volume" && second === "host" && isId(third)) return hostVolumeHref(third, namespace);
  if (first === "volume" && second === "csi" && third) return csiVolumeHref(third, namespace);
  if (first === "node" && isId(second)) return nodeHref(second);
  if (first === "job" && second) return jobHref(second, namespace);
  return null;
}

const isId = (text: string): boolean => /^[0-9a-f]{8}-/.test(text);

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
