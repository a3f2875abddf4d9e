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

/** `GET secret/data/app`, or the name of an action. */
export const titleOf = (line: Line): string =>
  line.kind === "action"
    ? textOf(line, "event")
    : `${textOf(line, "method")} ${textOf(line, "path").replace(/^\/v1\//, "")}`;

/** Ids and counts of an action. */
export const detailsOf = (line: Line): string =>
  Object.entries(line)
    .filter(([name]) => !["level", "kind", "time", "event"].includes(name))
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(", ");

export function endOf(line: Line): { readonly tone: Tone; readonly word: string } | null {
  const status = Number(line["status"] ?? 0);
  if (line.kind !== "answer") return line.kind === "request" ? { tone: "wait", word: "received" } : null;
  if (status >= 500) return { tone: "bad", word: `${status} ${textOf(line, "error")}` };
  if (status >= 400) return { tone: "warn", word: `${status} ${textOf(line, "error")}` };
  return { tone: "ok", word: String(status) };
}

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
  if (destination.length === 2) return href("sync", destination);
  const joined = path.join("/");
  const [, type, name] = /sys\/sync\/destinations\/([^/]+)\/([^/]+)/.exec(joined) ?? [];
  if (type && name) return href("sync", [type, name], { ns: namespace || null });
  if (/(^|\/)sys\/(policies|capabilities|auth)|(^|\/)(auth|identity)\//.test(joined)) return href("access");
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
